package dev.cooperator.spark;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.Serializable;
import java.sql.SQLException;
import java.util.List;
import java.util.Set;
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

/** The work that was done, or the failure: an answer to Python, which decides what follows. */
record SlotResult(long rows, long[] counts, String kind, String error) implements Serializable {
  private static final String ROWS = "rows";
  private static final String REFUSED = "refused";

  /** The broker knows the producer or its transaction no longer; another initialisation helps. */
  private static final List<Class<? extends KafkaException>> LOST =
      List.of(
          InvalidPidMappingException.class,
          InvalidTxnStateException.class,
          OutOfOrderSequenceException.class,
          TransactionAbortedException.class,
          UnknownProducerIdException.class);

  private static final Set<String> PASSING_CLASSES = Set.of("08", "40", "53", "57", "58");

  /** Read-only (a standby), idle in a transaction for too long, a lock not available. */
  private static final Set<String> PASSING = Set.of("25006", "25P03", "55P03");

  /** {@code counts}: the records read of each unit. */
  static SlotResult done(long rows, long[] counts) {
    return new SlotResult(rows, counts, "", "");
  }

  /**
   * The kinds are {@code fenced}, {@code retriable}, {@code data_loss}, {@code rows} (the values of a row are
   * the reason), {@code refused} (the database refuses them) and {@code failed}.
   */
  static SlotResult failed(Throwable error) {
    StringBuilder text = new StringBuilder();
    for (Throwable each = error; each != null; each = each.getCause()) {
      text.append(text.length() == 0 ? "" : ": caused by ").append(each);
    }
    return new SlotResult(0, new long[0], kind(error), text.toString());
  }

  /** Whether the values of a row are the reason, so that the slot's producer is as good as before. */
  boolean blamesRows() {
    return kind.equals(ROWS);
  }

  ObjectNode json() {
    ObjectNode node = KafkaTransactions.JSON.createObjectNode();
    if (!kind.isEmpty()) {
      return node.put("kind", kind).put("error", error);
    }
    node.put("rows", rows);
    for (long count : counts) {
      node.withArray("counts").add(count);
    }
    return node;
  }

  private static String kind(Throwable error) {
    for (Throwable each = error; each != null; each = each.getCause()) {
      Throwable cause = each;
      if (cause instanceof ProducerFencedException || cause instanceof InvalidProducerEpochException) {
        return "fenced";
      }
      if (cause instanceof RangeConsumer.DataLoss) {
        return "data_loss";
      }
      if (cause instanceof SQLException refused) {
        return passes(refused) ? "retriable" : isOfValues(refused) ? REFUSED : "failed";
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

  /** A data exception, or a violated constraint. */
  private static boolean isOfValues(SQLException error) {
    String state = error.getSQLState();
    return state.startsWith("22") || state.startsWith("23");
  }

  /** The same as in {@code connectors/postgres.py}: a server is away, or another transaction in the way. */
  private static boolean passes(SQLException error) {
    String state = error.getSQLState();
    return error instanceof SlotConnections.Unreachable
        || state == null
        || PASSING_CLASSES.contains(state.substring(0, Math.min(2, state.length())))
        || PASSING.contains(state);
  }
}
