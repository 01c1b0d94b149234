package dev.cooperator.spark;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.util.CollectionAccumulator;

/**
 * The numbers of records that jobs have read of ranges, wherever their tasks ran. Offsets do not tell them: some
 * are of markers of transactions, or of records that compaction has removed.
 */
public final class RangeCounts {
  private static final Map<String, CollectionAccumulator<long[]>> OF_READS = new ConcurrentHashMap<>();

  private RangeCounts() {}

  /** Returns where the tasks of a read count; null if nobody asks. */
  static CollectionAccumulator<long[]> of(String read) {
    return read == null
        ? null
        : OF_READS.computeIfAbsent(
            read, name -> SparkSession.active().sparkContext().collectionAccumulator("records of ranges"));
  }

  /** Ends a read; returns the numbers of records of the Spark partitions that were read to their ends. */
  public static Map<Integer, Long> take(String read) {
    Map<Integer, Long> found = new HashMap<>();
    CollectionAccumulator<long[]> counts = OF_READS.remove(read);
    for (long[] each : counts == null ? List.<long[]>of() : counts.value()) {
      found.put((int) each[0], each[1]);
    }
    return found;
  }
}
