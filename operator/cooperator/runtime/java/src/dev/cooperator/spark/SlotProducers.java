package dev.cooperator.spark;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The transactional producers of this JVM, one for each transactional id.
 *
 * <p>Initialising a producer fences all others with its id, also one of a newer attempt. So an attempt
 * initialises its producers in rounds, called sessions, and looks for newer claims after each, before it
 * writes. A batch uses only producers of its session: if one is missing, it fails, and never initialises one.
 */
final class SlotProducers {
  private static final Logger LOG = LoggerFactory.getLogger(SlotProducers.class);

  /** Time to abort a transaction that is still open when its producer is closed. */
  private static final Duration ABORT = Duration.ofSeconds(2);

  /** Defaults that the user's settings override. */
  private static final Map<String, String> DEFAULTS =
      Map.of(
          "client.id", "cooperator",
          "linger.ms", "50", // A commit does not wait for it.
          "batch.size", "65536",
          "compression.type", "lz4",
          "buffer.memory", String.valueOf(MemoryBudget.PRODUCER),
          "transaction.timeout.ms", "60000");

  /** Nobody closes the producers of an executor when a task moves elsewhere: those without use are closed. */
  private static final Duration IDLE = Duration.ofMinutes(10);

  /** {@code usedNs} is when a producer of an executor was used last; null: it does not expire. */
  private record Opened(KafkaProducer<byte[], byte[]> producer, String session, Long usedNs) {}

  private static final Map<String, Opened> OPENED = new HashMap<>();

  private SlotProducers() {}

  /**
   * Initialises producers for the batches of a session, which aborts the open transactions of their ids.
   *
   * <p>Throws the first failure, after it has closed all of them.
   */
  static void open(Map<String, String> settings, List<String> ids, String session) {
    close(ids);
    List<Thread> threads = new ArrayList<>();
    Map<String, KafkaException> failures = new HashMap<>();
    for (String id : ids) {
      Thread thread =
          new Thread(
              () -> {
                try {
                  initialise(settings, id, session, null);
                } catch (KafkaException error) {
                  synchronized (failures) {
                    failures.put(id, error);
                  }
                }
              },
              "open " + id);
      threads.add(thread);
      thread.start();
    }
    try {
      for (Thread thread : threads) {
        thread.join();
      }
    } catch (InterruptedException error) {
      throw new org.apache.kafka.common.errors.InterruptException(error);
    }
    for (KafkaException failure : failures.values()) {
      close(ids);
      throw failure;
    }
  }

  /** The same for one producer of an executor, which closes others that have not been used for long. */
  static void openOnExecutor(Map<String, String> settings, String id, String session) {
    List<String> idle = new ArrayList<>();
    synchronized (OPENED) {
      OPENED.forEach(
          (each, opened) -> {
            if (opened.usedNs() != null && System.nanoTime() - opened.usedNs() > IDLE.toNanos()) {
              idle.add(each);
            }
          });
    }
    idle.add(id);
    close(idle);
    initialise(settings, id, session, System.nanoTime());
  }

  private static void initialise(Map<String, String> settings, String id, String session, Long nowNs) {
    Map<String, Object> all = new HashMap<>(DEFAULTS);
    all.putAll(settings);
    all.put("transactional.id", id);
    // A transaction that has timed out is lost: the task should say so instead of waiting for it.
    long timeoutMs = Long.parseLong(all.get("transaction.timeout.ms").toString());
    all.putIfAbsent("max.block.ms", String.valueOf(Math.min(60_000, Math.max(20_000, timeoutMs))));
    // A record has to fit into the buffer.
    long request = Long.parseLong(all.getOrDefault("max.request.size", "0").toString());
    if (!settings.containsKey("buffer.memory") && request > MemoryBudget.PRODUCER) {
      all.put("buffer.memory", String.valueOf(request));
    }
    all.put("enable.idempotence", "true");
    all.put("acks", "all");
    KafkaProducer<byte[], byte[]> producer =
        new KafkaProducer<>(all, new ByteArraySerializer(), new ByteArraySerializer());
    try {
      producer.initTransactions();
    } catch (RuntimeException error) {
      producer.close(Duration.ZERO);
      throw error;
    }
    synchronized (OPENED) {
      OPENED.put(id, new Opened(producer, session, nowNs));
    }
  }

  /** Returns the id's producer if it was opened here for this session, otherwise null. */
  static KafkaProducer<byte[], byte[]> of(String id, String session) {
    synchronized (OPENED) {
      Opened opened = OPENED.get(id);
      if (opened == null || !opened.session().equals(session)) {
        return null;
      }
      if (opened.usedNs() != null) {
        OPENED.put(id, new Opened(opened.producer(), session, System.nanoTime()));
      }
      return opened.producer();
    }
  }

  /** Closes producers, and aborts their open transactions if the broker answers in time. */
  static void close(List<String> ids) {
    for (String id : ids) {
      Opened opened;
      synchronized (OPENED) {
        opened = OPENED.remove(id);
      }
      if (opened != null) {
        close(id, opened.producer());
      }
    }
  }

  /** The same for one producer, which may have been replaced by another one of its id. */
  static void drop(String id, KafkaProducer<byte[], byte[]> producer) {
    synchronized (OPENED) {
      OPENED.computeIfPresent(id, (key, opened) -> opened.producer() == producer ? null : opened);
    }
    close(id, producer);
  }

  private static void close(String id, KafkaProducer<byte[], byte[]> producer) {
    try {
      producer.close(ABORT);
    } catch (KafkaException error) {
      LOG.info("closing the producer of {}: {}", id, error.toString());
    }
  }
}
