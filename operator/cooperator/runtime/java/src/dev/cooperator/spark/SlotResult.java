package dev.cooperator.spark;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.Serializable;
import java.sql.SQLException;
import java.util.List;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.InvalidPidMappingException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.InvalidTxnStateException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.TransactionAbortedException;
import org.apache.kafka.common.errors.UnknownProducerIdException;
import org.apache.spark.SparkThrowable;
import org.postgresql.util.PSQLException;

/** The work that was done, or the failure: an answer to Python, which decides what follows. */
record SlotResult(long rows, long[] counts, String kind, String error, String state, String routine)
    implements Serializable {
  private static final String ROWS = "rows";
  private static final String DATABASE = "database";

  /** The broker knows the producer or its transaction no longer; another initialisation helps. */
  private static final List<Class<? extends KafkaException>> LOST =
      List.of(
          InvalidPidMappingException.class,
          InvalidTxnStateException.class,
          OutOfOrderSequenceException.class,
          TransactionAbortedException.class,
          UnknownProducerIdException.class);

  /** {@code counts}: the records read of each unit. */
  static SlotResult done(long rows, long[] counts) {
    return new SlotResult(rows, counts, "", "", "", "");
  }

  /**
   * The kinds are {@code memory} (a smaller batch may do), {@code fenced}, {@code retriable}, {@code
   * data_loss}, {@code rows} (the values of a row are the reason), {@code database} (what it means, {@code state} and {@code routine} say, see
   * {@code connectors/postgres_states.py}) and {@code failed}.
   */
  static SlotResult failed(Throwable error) {
    StringBuilder text = new StringBuilder();
    for (Throwable each = error; each != null; each = each.getCause()) {
      text.append(text.length() == 0 ? "" : ": caused by ").append(each);
    }
    String kind = kind(error);
    SQLException answer = kind.equals(DATABASE) ? answer(error) : null;
    return new SlotResult(
        0,
        new long[0],
        kind,
        text.toString(),
        answer == null ? "" : answer.getSQLState(),
        answer == null ? "" : routine(answer));
  }

  /** Whether the values of a row are the reason, so that the slot's producer is as good as before. */
  boolean blamesRows() {
    return kind.equals(ROWS);
  }

  ObjectNode json() {
    ObjectNode node = KafkaTransactions.JSON.createObjectNode();
    if (!kind.isEmpty()) {
      return node.put("kind", kind).put("error", error).put("state", state).put("routine", routine);
    }
    node.put("rows", rows);
    for (long count : counts) {
      node.withArray("counts").add(count);
    }
    return node;
  }

  private static String kind(Throwable error) {
    if (MemoryBudget.isReason(error)) {
      return "memory";
    }
    for (Throwable each = error; each != null; each = each.getCause()) {
      Throwable cause = each;
      if (cause instanceof ProducerFencedException || cause instanceof InvalidProducerEpochException) {
        return "fenced";
      }
      if (cause instanceof RangeConsumer.DataLoss) {
        return "data_loss";
      }
      if (cause instanceof SQLException answer) {
        boolean isGone = answer instanceof SlotConnections.Unreachable || answer.getSQLState() == null;
        return isGone ? "retriable" : DATABASE;
      }
      boolean isLost = LOST.stream().anyMatch(lost -> lost.isInstance(cause));
      if (isLost
          || cause instanceof RetriableException
          || cause instanceof SlotWriter.NotOpen
          || cause instanceof CopyWriter.Superseded
          || cause instanceof TableReader.Changed) {
        return "retriable";
      }
    }
    return blamesRow(error) ? ROWS : "failed";
  }

  /** Whether the innermost error that has an SQLSTATE is one of a row, as {@code blames_a_row} of Python says. */
  private static boolean blamesRow(Throwable error) {
    String state = "";
    for (Throwable each = error; each != null; each = each.getCause()) {
      if (each instanceof SparkThrowable stated && stated.getSqlState() != null) {
        state = stated.getSqlState();
      }
    }
    return state.startsWith("22") || state.startsWith("39") || state.equals("P0001");
  }

  private static SQLException answer(Throwable error) {
    Throwable each = error;
    while (!(each instanceof SQLException)) {
      each = each.getCause();
    }
    return (SQLException) each;
  }

  /** The routine of the server that has raised an error. */
  private static String routine(SQLException answer) {
    boolean isServers = answer instanceof PSQLException told && told.getServerErrorMessage() != null;
    String found = isServers ? ((PSQLException) answer).getServerErrorMessage().getRoutine() : null;
    return found == null ? "" : found;
  }
}
