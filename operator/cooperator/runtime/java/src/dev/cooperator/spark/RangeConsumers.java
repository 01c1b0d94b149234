package dev.cooperator.spark;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * The idle consumers of this JVM.
 *
 * <p>A consumer is taken by the name of its last user if it is idle, since that one has the partitions
 * assigned and may have fetched their next records. Otherwise an idle one with the same settings is taken when
 * there are {@link #ENOUGH}, and a new one is made when there are not. Those that are idle for {@link #IDLE}
 * are closed.
 */
final class RangeConsumers {
  private static final int ENOUGH = 2 * Runtime.getRuntime().availableProcessors();
  private static final Duration IDLE = Duration.ofSeconds(60);

  /** Defaults that the user's settings override. */
  private static final Map<String, String> DEFAULTS =
      Map.of(
          "isolation.level", "read_committed",
          "max.poll.records", "5000",
          "fetch.max.bytes", String.valueOf(MemoryBudget.POLL), // What an idle consumer may hold.
          "fetch.max.wait.ms", "50",
          "client.id", "cooperator");

  private record Key(Map<String, String> settings, boolean failOnDataLoss, long timeoutMs) {}

  private record Idle(Key key, String user, RangeConsumer consumer, long sinceNs) {}

  /** From the one that is idle for longest to the newest. */
  private static final List<Idle> IDLES = new ArrayList<>();

  private static final Map<RangeConsumer, Idle> TAKEN = new HashMap<>();

  private static final ScheduledExecutorService CLOSER =
      Executors.newSingleThreadScheduledExecutor(
          task -> {
            Thread thread = new Thread(task, "idle consumers");
            thread.setDaemon(true);
            return thread;
          });

  static {
    CLOSER.scheduleWithFixedDelay(RangeConsumers::closeIdle, 10, 10, TimeUnit.SECONDS);
  }

  private RangeConsumers() {}

  /** Returns a consumer that nobody else uses, until it is given back or closed. */
  static RangeConsumer take(
      Map<String, String> settings, String user, boolean failOnDataLoss, long timeoutMs) {
    Key key = new Key(settings, failOnDataLoss, timeoutMs);
    synchronized (IDLES) {
      Idle found = null;
      int same = 0;
      for (Idle idle : IDLES) {
        if (idle.key().equals(key)) {
          same++;
          if (found == null || idle.user().equals(user)) {
            found = idle;
          }
        }
      }
      if (found != null && (same >= ENOUGH || found.user().equals(user))) {
        IDLES.remove(found);
        TAKEN.put(found.consumer(), new Idle(key, user, found.consumer(), 0));
        return found.consumer();
      }
    }
    RangeConsumer made = consumer(settings, failOnDataLoss, timeoutMs);
    synchronized (IDLES) {
      TAKEN.put(made, new Idle(key, user, made, 0));
    }
    return made;
  }

  /** Keeps a consumer for the next user. */
  static void give(RangeConsumer consumer) {
    synchronized (IDLES) {
      Idle taken = TAKEN.remove(consumer);
      IDLES.add(new Idle(taken.key(), taken.user(), consumer, System.nanoTime()));
    }
  }

  /** Closes a consumer that was taken and is not given back. */
  static void close(RangeConsumer consumer) {
    synchronized (IDLES) {
      TAKEN.remove(consumer);
    }
    consumer.close();
  }

  private static void closeIdle() {
    List<RangeConsumer> old = new ArrayList<>();
    synchronized (IDLES) {
      long limitNs = System.nanoTime() - IDLE.toNanos();
      for (Iterator<Idle> idles = IDLES.iterator(); idles.hasNext(); ) {
        Idle idle = idles.next();
        if (idle.sinceNs() < limitNs) {
          idles.remove();
          old.add(idle.consumer());
        }
      }
    }
    old.forEach(RangeConsumer::close);
  }

  private static RangeConsumer consumer(Map<String, String> settings, boolean failOnDataLoss, long timeoutMs) {
    Map<String, Object> all = new HashMap<>(DEFAULTS);
    all.putAll(settings);
    all.keySet().removeAll(List.of("group.id", "group.instance.id"));
    all.put("auto.offset.reset", "none");
    all.put("enable.auto.commit", "false");
    all.put("allow.auto.create.topics", "false");
    BoundedBytes values = new BoundedBytes();
    KafkaConsumer<byte[], byte[]> client = new KafkaConsumer<>(all, new ByteArrayDeserializer(), values);
    return new RangeConsumer(client, values, failOnDataLoss, timeoutMs);
  }
}
