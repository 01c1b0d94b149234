package dev.cooperator.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;

/**
 * Finds the records of {@link KafkaRanges} that a query fails for.
 *
 * <p>A query that treats each record by itself has failed for the record that was read last, and asked for more rows it goes
 * on with the next one (see {@link RowTrial}). Only the failing records leave their Spark tasks.
 */
public final class FailingRecords {
  private static final StructType SCHEMA = KafkaRanges.schema(true);
  private static final long MOST_BYTES = 8 << 20;

  private final SparkSession session;
  private final RDD<InternalRow> query;
  private final boolean isReusable;

  private FailingRecords(QueryExecution query) {
    this.session = query.sparkSession();
    this.query = query.toRdd();
    this.isReusable = !KafkaTransactions.variesByBatch(query.analyzed());
  }

  /** Plans a search in a query, whose source has the option {@code slots}. */
  public static FailingRecords of(QueryExecution query) {
    return new FailingRecords(query);
  }

  /** Whether it serves another batch, as plans do. */
  public boolean isReusable() {
    return isReusable;
  }

  /**
   * Returns records that the query fails for, up to {@code most} of each slot, with the columns of {@link KafkaRanges}.
   * If the query buffers records, others are among them. Fails if they are larger than some MiB.
   *
   * @param slots JSON: the ranges of each slot, {@code [[[topic, partition, from, to], …], …]}
   */
  public Found find(String slots, int most) {
    Map<Integer, SlotWork> works = new TreeMap<>();
    for (List<OffsetRange> ranges : OffsetRange.partitions(slots)) {
      works.put(works.size(), SlotWork.of(works.size(), ranges));
    }
    Object found = new Search(query, works, most).collect();
    return new Found(session, new GivenRows(session.sparkContext(), (InternalRow[]) found));
  }

  /** The records that were found; {@link #free} them after use. */
  public record Found(SparkSession session, GivenRows given) {
    public Dataset<Row> rows() {
      return session.internalCreateDataFrame(given, SCHEMA, false);
    }

    public void free() {
      given.free();
    }
  }

  private static final class Search extends RDD<InternalRow> {
    private static final long serialVersionUID = 1L;
    private final RDD<InternalRow> query;
    private final Map<Integer, SlotWork> works;
    private final int most;

    Search(RDD<InternalRow> query, Map<Integer, SlotWork> works, int most) {
      super(query, ClassTag$.MODULE$.apply(InternalRow.class));
      this.query = query;
      this.works = works;
      this.most = most;
    }

    @Override
    public Partition[] getPartitions() {
      return query.partitions();
    }

    @Override
    public Iterator<InternalRow> compute(Partition slot, TaskContext context) {
      SlotWork work = works.get(slot.index());
      List<InternalRow> found = work == null ? List.of() : found(work, slot, context);
      return CollectionConverters.asScala(found.iterator());
    }

    private List<InternalRow> found(SlotWork work, Partition slot, TaskContext context) {
      List<InternalRow> found = new ArrayList<>();
      RangesReader whole = new RangesReader(List.of(SCHEMA.fieldNames()), Long.MAX_VALUE, List.of(), null, null);
      work.enter(context);
      try {
        long[] bytes = {0};
        boolean isComplete =
            RowTrial.readOn(
                query.iterator(slot, context),
                context,
                () -> work.last,
                error -> SlotResult.failed(error).blamesRows(),
                (record, error) -> {
                  found.add(whole.read(record).get().copy());
                  bytes[0] += Math.max(0, record.serializedKeySize()) + Math.max(0, record.serializedValueSize());
                  return found.size() < most && bytes[0] <= MOST_BYTES;
                });
        if (!isComplete || bytes[0] > MOST_BYTES) {
          // Letters must not be written while others may be missing.
          throw new IllegalStateException("a record fails too often, or records of more than 8 MiB fail");
        }
        return found;
      } finally {
        SlotWork.leave(context);
      }
    }
  }
}
