package dev.cooperator.spark;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.spark.TaskContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One KafkaConsumer that reads ranges exactly.
 *
 * <p>A range ends by the client's position, not by a count of records, since compaction and the markers of
 * transactions leave gaps. Records that a fetch returned beyond a range's end are kept for the next range, which usually
 * begins there; such a range needs no seek and no request. It is not thread-safe.
 */
final class RangeConsumer {
  private static final Logger LOG = LoggerFactory.getLogger(RangeConsumer.class);
  private static final Duration POLL = Duration.ofMillis(500);
  private static final Duration ASK = Duration.ofSeconds(5);
  private static final Duration CLOSE = Duration.ofSeconds(1);
  private static final long UNKNOWN = -1;

  /** Number of reads that a partition stays assigned (paused, with its session at the broker) without ranges. */
  private static final long KEPT = 16;

  private final KafkaConsumer<byte[], byte[]> client;
  private final BoundedBytes values;
  private final boolean failOnDataLoss;
  private final long timeoutMs;
  private final Map<TopicPartition, Place> places = new HashMap<>();

  /** Places whose range has not been read to its end. */
  private final Set<Place> open = new HashSet<>();

  /** Those of them that have fetched records. */
  private final Deque<Place> ready = new ArrayDeque<>();

  private Place current;
  private long reads;

  /** A partition: where its next range has to begin, and the records that are fetched from there on. */
  private static final class Place {
    final TopicPartition partition;
    OffsetRange range;
    long next = UNKNOWN;
    long lastRead;
    List<ConsumerRecord<byte[], byte[]>> records = List.of();
    int index;

    /** The records of the present range that were returned. */
    long count;

    Place(TopicPartition partition) {
      this.partition = partition;
    }

    boolean hasRecord() {
      return index < records.size();
    }

    /** Whether the range has a fetched record. */
    boolean isReady() {
      return hasRecord() && records.get(index).offset() < range.to();
    }

    void forget(long from) {
      records = List.of();
      index = 0;
      next = from;
    }
  }

  /** The client reads the records' values by {@code values}. */
  RangeConsumer(
      KafkaConsumer<byte[], byte[]> client, BoundedBytes values, boolean failOnDataLoss, long timeoutMs) {
    this.client = client;
    this.values = values;
    this.failOnDataLoss = failOnDataLoss;
    this.timeoutMs = timeoutMs;
  }

  /** Starts to read the ranges, of which no two are of one partition; {@link #next} returns their records. */
  void begin(List<OffsetRange> planned) {
    // A client wants a position in each partition that it has assigned, so not those without an offset to read.
    List<OffsetRange> ranges = planned.stream().filter(range -> range.from() < range.to()).toList();
    reads++;
    open.clear();
    ready.clear();
    current = null;
    assign(ranges);
    List<TopicPartition> fetched = new ArrayList<>();
    for (OffsetRange range : ranges) {
      Place place = places.get(range.place());
      place.range = range;
      place.count = 0;
      open.add(place);
      if (place.next != range.from()) {
        client.seek(place.partition, range.from());
        place.forget(range.from());
        fetched.add(place.partition);
      } else if (place.isReady()) {
        ready.add(place);
      } else if (!settle(place)) {
        fetched.add(place.partition);
      }
    }
    Set<TopicPartition> paused = new HashSet<>(places.keySet());
    paused.removeAll(fetched);
    client.pause(paused);
    client.resume(fetched);
  }

  /**
   * Returns the next record of the ranges, or null when all were read to their ends. Records that are left out are
   * counted, and not returned.
   *
   * <p>Throws {@link DataLoss} for offsets that do not exist any more.
   */
  ConsumerRecord<byte[], byte[]> next() {
    while (true) {
      if (current != null) {
        if (current.isReady()) {
          current.count++;
          ConsumerRecord<byte[], byte[]> record = current.records.get(current.index++);
          if (current.range.leftOut().isEmpty() || !current.range.leftOut().contains(record.offset())) {
            return record;
          }
          continue;
        }
        if (!settle(current)) {
          client.resume(Collections.singleton(current.partition));
        }
      }
      current = ready.poll();
      if (current == null) {
        if (open.isEmpty()) {
          return null;
        }
        fetch();
      }
    }
  }

  /** Returns how many records of a range that {@link #begin} was given were returned. */
  long count(OffsetRange range) {
    Place place = places.get(range.place());
    return place == null || !range.equals(place.range) ? 0 : place.count;
  }

  void close() {
    try {
      client.close(CLOSE);
    } catch (KafkaException error) {
      LOG.info("closing a consumer: {}", error.toString());
    }
  }

  private void assign(List<OffsetRange> ranges) {
    Set<TopicPartition> before = new HashSet<>(places.keySet());
    for (OffsetRange range : ranges) {
      places.computeIfAbsent(range.place(), Place::new).lastRead = reads;
    }
    places.values().removeIf(place -> place.lastRead < reads - KEPT);
    if (!before.equals(places.keySet())) {
      client.assign(places.keySet());
    }
  }

  /** The end of a range is reached when its next record, or the client's position, is not before it. */
  private boolean settle(Place place) {
    boolean kept = place.hasRecord();
    if (!kept && client.position(place.partition) < place.range.to()) {
      return false;
    }
    place.next = place.range.to();
    finish(place);
    return true;
  }

  private void finish(Place place) {
    if (open.remove(place)) {
      client.pause(Collections.singleton(place.partition));
    }
  }

  /** Returns when something has advanced; throws an exception when nothing does within the time limit. */
  private void fetch() {
    long deadlineNs = System.nanoTime() + timeoutMs * 1_000_000;
    long positions = 0;
    while (true) {
      boolean advanced = false;
      TaskContext context = TaskContext.get();
      if (context != null && context.isInterrupted()) {
        throw new InterruptException("the Spark task was cancelled");
      }
      try {
        values.restart();
        ConsumerRecords<byte[], byte[]> found = client.poll(POLL);
        for (TopicPartition partition : found.partitions()) {
          Place place = places.get(partition);
          place.records = found.records(partition);
          place.index = 0;
          ready.add(place);
          advanced = true;
        }
      } catch (OffsetOutOfRangeException error) {
        lost(error.offsetOutOfRangePartitions());
        advanced = true;
      }
      for (Place place : new ArrayList<>(open)) {
        advanced |= !place.hasRecord() && settle(place);
      }
      if (advanced) {
        return;
      }
      // Offsets without records, as of aborted transactions, are progress, too.
      long before = positions;
      positions = open.stream().mapToLong(place -> client.position(place.partition)).sum();
      if (positions != before) {
        deadlineNs = System.nanoTime() + timeoutMs * 1_000_000;
      } else if (System.nanoTime() > deadlineNs) {
        throw new NoProgress(open.stream().map(this::state).sorted().limit(3).toList(), timeoutMs);
      }
    }
  }

  private String state(Place place) {
    return place.range + " at " + client.position(place.partition);
  }

  /** Skips to the first offset that exists, or throws {@link DataLoss}. */
  private void lost(Map<TopicPartition, Long> positions) {
    Map<TopicPartition, Long> begins = client.beginningOffsets(positions.keySet(), ASK);
    Map<TopicPartition, Long> ends = client.endOffsets(positions.keySet(), ASK);
    for (Map.Entry<TopicPartition, Long> position : positions.entrySet()) {
      TopicPartition partition = position.getKey();
      Place place = places.get(partition);
      long begin = begins.get(partition);
      String text =
          String.format(
              "%s cannot be read at %d: the partition has offsets %d to %d",
              place.range, position.getValue(), begin, ends.get(partition));
      if (failOnDataLoss) {
        throw new DataLoss(text);
      }
      LOG.warn("{}; what is missing is skipped", text);
      boolean isBefore = position.getValue() < begin && begin < place.range.to();
      if (isBefore) {
        client.seek(partition, begin);
      } else {
        place.forget(UNKNOWN); // The next range seeks.
        finish(place);
      }
    }
  }

  /** Offsets of a range do not exist any more. */
  static final class DataLoss extends KafkaException {
    private static final long serialVersionUID = 1L;

    DataLoss(String message) {
      super(message);
    }
  }

  /** Nothing was read for the time limit. */
  static final class NoProgress extends org.apache.kafka.common.errors.TimeoutException {
    private static final long serialVersionUID = 1L;

    NoProgress(List<String> states, long timeoutMs) {
      super("nothing was read for " + timeoutMs + " ms: " + String.join("; ", states));
    }
  }
}
