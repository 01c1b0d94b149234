package dev.cooperator.spark;

import org.apache.kafka.common.KafkaException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The bytes that tasks may hold: a quarter of the heap of the JVM, divided among what runs at the same time.
 *
 * <p>The limits are of records as they are read; a record that is converted is held several times.
 */
final class MemoryBudget {
  private static final Logger LOG = LoggerFactory.getLogger(MemoryBudget.class);
  private static final long LEAST = 1 << 20;
  private static final long HEAP = Runtime.getRuntime().maxMemory();
  private static final long BYTES = HEAP / 4;

  /** Spark runs two tasks for each core. */
  private static final long READERS = Math.max(4, 2L * Runtime.getRuntime().availableProcessors());

  /** The records that a consumer returns at once; also the bytes of its fetches. */
  static final long POLL = Math.max(LEAST, Math.min(16 << 20, BYTES / READERS));

  /** The buffer of a producer. */
  static final long PRODUCER = Math.max(2 * LEAST, Math.min(32 << 20, BYTES / READERS));

  /** The records of a batch that is collected: they are held some six times until it is written. */
  static final long COLLECTED = Math.max(LEAST, BYTES / 8);

  /** A line or a file that is one record. */
  static final long RECORD = Math.max(LEAST, BYTES / 4);

  private MemoryBudget() {}

  /** Whether the memory of the JVM did not suffice, or a batch would have more than its part of it. */
  static boolean isReason(Throwable error) {
    for (Throwable each = error; each != null; each = each.getCause()) {
      if (each instanceof OutOfMemoryError || each instanceof Exceeded) {
        return true;
      }
    }
    return false;
  }

  /** Returns the remedy for what is larger than {@link #RECORD}. */
  static String remedy() {
    return "more than "
        + RECORD
        + " bytes, a sixteenth of the heap of "
        + (HEAP >> 20)
        + " MB: raise spec.spark.heapMb of the Worker, or";
  }

  /**
   * Ends the JVM when a thread ends because of an {@link OutOfMemoryError}: without it Spark might wait for that
   * thread for ever. What Spark's tasks and callers catch ends nothing.
   */
  static void watch() {
    Thread.setDefaultUncaughtExceptionHandler(
        (thread, error) -> {
          if (error instanceof OutOfMemoryError) {
            Runtime.getRuntime().halt(52); // as Spark's executors do
          }
          LOG.error("thread {} has ended", thread.getName(), error);
        });
  }

  /** A batch has more than it may hold; a smaller one will not. */
  static final class Exceeded extends KafkaException {
    private static final long serialVersionUID = 1L;

    Exceeded(String message) {
      super(message);
    }
  }
}
