package dev.cooperator.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.spark.TaskContext;

/**
 * The part of a batch that one Spark task reads and commits: the ranges of its slot, with a position record each.
 *
 * <p>The reader and the writer of a Spark task share this object. The writer commits the positions only after
 * the reader of the same task has read all ranges to their ends, so a plan that drops records (LIMIT) or moves
 * them to other tasks (an exchange) cannot commit positions of records that it has not written.
 */
final class SlotWork implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final Map<Long, SlotWork> OF_TASKS = new ConcurrentHashMap<>();

  /**
   * A range, and the record by which its end is committed; a negative partition is chosen by the key. {@code
   * pieces} are those of files whose bytes the range counts; {@code beside} is committed with it. {@code read}
   * is what it means of a table (null: nothing).
   */
  record Unit(
      OffsetRange range,
      String key,
      String value,
      int partition,
      List<FilePiece> pieces,
      List<Beside> beside,
      TableRead read)
      implements Serializable {}

  /** A record of another topic than that of rows or positions. */
  record Beside(String topic, int partition, String key, String value) implements Serializable {
    static Beside of(JsonNode node) {
      return new Beside(
          node.get(0).asText(), node.get(1).asInt(), node.get(2).asText(), node.get(3).asText());
    }
  }

  /** A record that is written in the place of one that is left out. */
  record Letter(String topic, byte[] key, byte[] value, List<Header> headers) implements Serializable {
    /** Reads {@code ["topic", key, value, [[name, value], …]]}; bytes are in base64, or null. */
    static Letter of(JsonNode node) throws IOException {
      List<Header> headers = new ArrayList<>();
      for (JsonNode each : node.get(3)) {
        headers.add(new Header(each.get(0).asText(), each.get(1).binaryValue()));
      }
      return new Letter(node.get(0).asText(), node.get(1).binaryValue(), node.get(2).binaryValue(), headers);
    }
  }

  record Header(String name, byte[] value) implements Serializable {}

  final int slot;

  /** The round of initialisations of the producer that may write it; see {@link SlotProducers}. */
  final String session;

  final List<Unit> units;

  /** They are committed with the rows. */
  final List<Letter> letters = new ArrayList<>();

  /**
   * Where rows go that have no topic of their own; may be null. A reader of tables changes it with the table:
   * the rows of one record are written before the next one is read.
   */
  String topic;

  /** Whether the batch was read before, and its rows are given. */
  private final boolean isGiven;

  /** The reader sets it when it has read all ranges: the number of records of each. */
  private transient long[] counts;

  /** The record that was read last. */
  transient ConsumerRecord<byte[], byte[]> last;

  SlotWork(int slot, String session, List<Unit> units, String topic, boolean isGiven) {
    this.slot = slot;
    this.session = session;
    this.units = new ArrayList<>(units);
    this.topic = topic;
    this.isGiven = isGiven;
  }

  /** Returns the work of a slot whose positions are not records. */
  static SlotWork of(int slot, List<OffsetRange> ranges) {
    List<Unit> units = new ArrayList<>(ranges.size());
    ranges.forEach(range -> units.add(new Unit(range, "", "", -1, List.of(), List.of(), null)));
    return new SlotWork(slot, "", units, null, false);
  }

  List<OffsetRange> ranges() {
    List<OffsetRange> found = new ArrayList<>(units.size());
    units.forEach(unit -> found.add(unit.range()));
    return found;
  }

  void readToTheEnd(long[] counts) {
    this.counts = counts;
  }

  /** Throws {@link IllegalStateException} unless all ranges were read to their ends. */
  void checkIsRead() {
    if (!isGiven && counts == null) {
      throw new IllegalStateException(
          "not all records were read: remove what drops records by their number (LIMIT) from the SQL");
    }
  }

  /** The number of records of each unit's range; empty if they were read before. */
  long[] counts() {
    return counts == null ? new long[0] : counts;
  }

  /** Makes it the work of the running Spark task, until {@link #leave}. */
  void enter(TaskContext context) {
    OF_TASKS.put(context.taskAttemptId(), this);
  }

  static void leave(TaskContext context) {
    OF_TASKS.remove(context.taskAttemptId());
  }

  /** Returns the work of the running Spark task. */
  static SlotWork current() {
    TaskContext context = TaskContext.get();
    SlotWork work = context == null ? null : OF_TASKS.get(context.taskAttemptId());
    if (work == null) {
      throw new IllegalStateException(
          "records are read in another Spark task than they are written in: remove what moves rows between"
              + " tasks (aggregates, joins, windows, ORDER BY, DISTINCT, LIMIT) from the SQL");
    }
    return work;
  }
}
