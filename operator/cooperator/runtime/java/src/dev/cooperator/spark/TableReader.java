package dev.cooperator.spark;

import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.apache.kafka.common.KafkaException;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.unsafe.types.UTF8String;
import org.postgresql.jdbc.PgConnection;

/**
 * Reads rows of tables: those of {@link SlotWork#current}, or of one given read. One row object serves all rows.
 *
 * <p>Results come in parts, so that a batch need not fit into memory. Throws {@link MemoryBudget.Exceeded} for rows that
 * are too large.
 */
final class TableReader implements PartitionReader<InternalRow> {
  /** The driver's property; the error about larger results has this name. */
  static final String LIMIT = "maxResultBuffer";

  /** Rows of the first part; those of the others are as many as their sizes allow. */
  private static final int FETCHED_ROWS = 100;
  private static final int SHOWN = 60;

  /** A statement that names what is not there, such as a column that was renamed. */
  private static final String REFUSED_CLASS = "42";

  /** A table is not as it was described; rows of it are read once it is described anew. */
  static final class Changed extends KafkaException {
    private static final long serialVersionUID = 1L;

    Changed(String table) {
      super("table " + table + " has changed since it was described");
    }
  }

  private final List<String> names;
  private final boolean areRecords;
  private final TableRead given;
  private final GenericInternalRow row;
  private SlotWork work;
  private List<TableRead> reads;
  private long[] counts;
  private int unit;
  private String id;
  private PgConnection connection;
  private AutoCloseable watch;
  private Statement statement;
  private ResultSet results;
  private int[] wanted;
  private String[] texts;
  private RowEncoder key;
  private RowEncoder value;

  TableReader(List<String> names, boolean areRecords, TableRead given) {
    this.names = names;
    this.areRecords = areRecords;
    this.given = given;
    this.row = new GenericInternalRow(names.size());
  }

  @Override
  public boolean next() {
    if (reads == null) {
      begin();
    }
    for (; unit < reads.size(); unit++) {
      TableRead read = reads.get(unit);
      if (read == null) {
        continue;
      }
      try {
        if (results == null) {
          open(read);
        }
        if (results.next()) {
          counts[unit]++;
          fill(read);
          return true;
        }
        closeResults();
        connection.commit();
      } catch (SQLException error) {
        if (String.valueOf(error.getMessage()).contains(LIMIT)) {
          throw new MemoryBudget.Exceeded("table " + read.table() + " has rows that are too large: " + error.getMessage());
        }
        throw new KafkaException("table " + read.table() + " cannot be read: " + error.getMessage(), error);
      }
    }
    if (connection != null) {
      endWatch();
      SlotConnections.give(id, connection);
      connection = null;
    }
    if (work != null) {
      work.readToTheEnd(counts);
    }
    return false;
  }

  @Override
  public InternalRow get() {
    return row;
  }

  /** A connection that is not given back yet is in the midst of a result. */
  @Override
  public void close() {
    endWatch();
    if (connection != null) {
      SlotConnections.drop(id, connection);
      connection = null;
    }
  }

  private void begin() {
    reads = new ArrayList<>();
    if (given != null) {
      reads.add(given);
    } else {
      work = SlotWork.current();
      work.units.forEach(each -> reads.add(each.read()));
    }
    counts = new long[reads.size()];
  }

  private void open(TableRead read) throws SQLException {
    TaskContext context = TaskContext.get();
    if (connection == null) {
      id = TableRead.id(read.pool(), work == null ? 0 : work.slot);
      connection = SlotConnections.take(id, read.server());
      watch = SlotConnections.watch(connection, read.server(), context::isInterrupted, () -> null);
    }
    statement = connection.createStatement();
    // The text is not JDBC's: braces and question marks are the database's.
    statement.setEscapeProcessing(false);
    statement.setFetchSize(FETCHED_ROWS);
    try {
      results = statement.executeQuery(read.sql());
    } catch (SQLException error) {
      if (error.getSQLState() != null && error.getSQLState().startsWith(REFUSED_CLASS)) {
        connection.rollback();
        check(read);
      }
      throw error;
    }
    // From here on the lock of the SELECT keeps the table as it is until the transaction ends.
    check(read);
    List<TableColumn> columns = read.columns();
    texts = new String[columns.size()];
    if (areRecords) {
      wanted = IntStream.range(0, columns.size()).toArray();
      key = read.key() == null ? null : new RowEncoder(read.key(), columns);
      value = new RowEncoder(read.value(), columns);
    } else {
      List<String> all = columns.stream().map(TableColumn::name).toList();
      wanted = names.stream().mapToInt(all::indexOf).toArray();
      if (work != null) {
        work.topic = read.topic();
      }
    }
  }

  private void check(TableRead read) throws SQLException {
    try (Statement asked = connection.createStatement()) {
      asked.setEscapeProcessing(false);
      ResultSet found = asked.executeQuery(read.digestSql());
      if (!found.next() || !found.getString(1).equals(read.digest())) {
        throw new Changed(read.table());
      }
    }
  }

  private void fill(TableRead read) throws SQLException {
    for (int index : wanted) {
      texts[index] = results.getString(index + 1);
    }
    if (areRecords) {
      for (int index = 0; index < names.size(); index++) {
        row.update(
            index,
            switch (names.get(index)) {
              case "topic" -> UTF8String.fromString(read.topic());
              case "key" -> key == null ? null : encoded(key, read);
              default -> encoded(value, read);
            });
      }
      return;
    }
    for (int index = 0; index < wanted.length; index++) {
      TableColumn column = read.columns().get(wanted[index]);
      String text = texts[wanted[index]];
      try {
        row.update(index, text == null ? null : TableText.internal(text, column));
      } catch (RuntimeException error) {
        throw refused(read, column, text, error);
      }
    }
  }

  private byte[] encoded(RowEncoder encoder, TableRead read) throws SQLException {
    try {
      return encoder.encode(texts);
    } catch (RowEncoder.Refused refused) {
      throw refused(read, refused.column, refused.text, refused.getCause());
    }
  }

  private KafkaException refused(TableRead read, TableColumn column, String text, Throwable error)
      throws SQLException {
    List<String> row = new ArrayList<>();
    for (int index : read.row()) {
      row.add(read.columns().get(index).name() + " = " + shown(results.getString(index + 1)));
    }
    return new KafkaException(
        "table "
            + read.table()
            + ", row "
            + String.join(", ", row)
            + ": column "
            + column.name()
            + " has the value "
            + shown(text)
            + ", which is no value of a record ("
            + error.getMessage()
            + "): change it, or read a view without it",
        error);
  }

  private static String shown(String text) {
    return text != null && text.length() > SHOWN ? text.substring(0, SHOWN) + "…" : text;
  }

  private void closeResults() throws SQLException {
    results.close();
    statement.close();
    results = null;
  }

  private void endWatch() {
    if (watch != null) {
      try {
        watch.close();
      } catch (Exception error) {
        throw new IllegalStateException(error);
      }
      watch = null;
    }
  }
}
