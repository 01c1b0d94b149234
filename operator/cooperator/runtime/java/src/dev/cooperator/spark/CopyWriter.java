package dev.cooperator.spark;

import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.function.BooleanSupplier;
import org.apache.spark.sql.catalyst.InternalRow;
import org.postgresql.copy.CopyIn;
import org.postgresql.jdbc.PgConnection;

/**
 * Copies the rows of one slot's Spark task, and moves its positions, in one transaction.
 *
 * <p>The rows are copied first, into a temporary table unless nothing can wait for them, then the positions are
 * locked and checked. So a client that freezes holds no lock that others wait for, except between statements,
 * where the server ends its transaction ({@code idle_in_transaction_session_timeout}).
 */
final class CopyWriter implements AutoCloseable {
  private static final int FLUSH_BYTES = 64 * 1024;

  private final CopyTarget target;
  private final CopyWork work;
  private final String id;
  private final BooleanSupplier isInterrupted;
  private final CopyLine line;
  private PgConnection connection;
  private AutoCloseable watch = () -> {};
  private CopyIn copy;
  private volatile Long writingSince;
  private boolean isDone;

  /** The connection is that of {@code id}, and is given up when the task {@code isInterrupted}. */
  CopyWriter(CopyTarget target, CopyWork work, String id, BooleanSupplier isInterrupted) {
    this.target = target;
    this.work = work;
    this.id = id;
    this.isInterrupted = isInterrupted;
    this.line = new CopyLine(target.columns(), FLUSH_BYTES);
  }

  void write(InternalRow row) throws SQLException {
    if (copy == null) {
      connect();
      execute(work.before());
      copy = connection.getCopyAPI().copyIn(work.copy());
    }
    line.append(row);
    if (line.size() >= FLUSH_BYTES) {
      flush();
    }
  }

  /** Commits, unless another transaction has written the same batch before. */
  void commit() throws SQLException {
    connect();
    if (copy != null) {
      flush();
      copy.endCopy();
      checkTable();
    }
    if (isWrittenBefore()) {
      connection.rollback();
    } else {
      try (PreparedStatement advance = connection.prepareStatement(target.advance())) {
        advance.setString(1, work.moves());
        advance.executeUpdate();
      }
      if (copy != null) {
        execute(work.after());
      }
      connection.commit();
    }
    isDone = true;
  }

  /** Keeps the connection after a commit; otherwise closes it, which ends the transaction. */
  @Override
  public void close() throws Exception {
    watch.close();
    if (connection != null && isDone) {
      SlotConnections.give(id, connection);
    } else if (connection != null) {
      SlotConnections.drop(id, connection);
    }
  }

  private void connect() throws SQLException {
    if (connection == null) {
      connection = SlotConnections.take(id, target.server());
      watch = SlotConnections.watch(connection, target.server(), isInterrupted, () -> writingSince);
    }
  }

  private void flush() throws SQLException {
    writingSince = System.nanoTime();
    copy.writeToCopy(line.bytes(), 0, line.size());
    writingSince = null;
    line.clear();
  }

  private void execute(String[] statements) throws SQLException {
    for (String each : statements) {
      try (Statement statement = connection.createStatement()) {
        statement.execute(each);
      }
    }
  }

  /** From its copy on, the table stays as it is until the transaction ends. */
  private void checkTable() throws SQLException {
    CopyWork.Table table = work.table();
    if (table.query().isEmpty()) {
      return;
    }
    try (Statement asked = connection.createStatement()) {
      // The text is not JDBC's: braces and question marks are the database's.
      asked.setEscapeProcessing(false);
      ResultSet found = asked.executeQuery(table.query());
      if (!found.next() || !found.getString(1).equals(table.digest())) {
        throw new Superseded("table " + table.name() + " has changed since it was described");
      }
    }
  }

  private boolean isWrittenBefore() throws SQLException {
    int moves = 0;
    int done = 0;
    try (PreparedStatement check = connection.prepareStatement(target.check())) {
      check.setString(1, work.moves());
      ResultSet found = check.executeQuery();
      for (; found.next(); moves++) {
        if (found.getString("problem") != null) {
          throw new Superseded(found.getString("problem"));
        }
        done += found.getBoolean("done") ? 1 : 0;
      }
    }
    if (done > 0 && done < moves) {
      throw new Superseded(done + " of " + moves + " units were moved by another transaction");
    }
    return done > 0;
  }

  /** The units, or the table, are not as this transaction expects them; nothing of it may be written. */
  static final class Superseded extends RuntimeException {
    private static final long serialVersionUID = 1L;

    Superseded(String problem) {
      super(problem);
    }
  }
}
