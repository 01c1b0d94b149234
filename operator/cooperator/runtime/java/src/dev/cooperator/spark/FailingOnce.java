package dev.cooperator.spark;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.Dataset;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.reflect.ClassTag$;

/**
 * The rows of a query that is left as soon as it fails for a row, or has too many bytes. Spark tries a failed task several times ({@code
 * spark.task.maxFailures}), and no job can say that it would fail again: the later attempts fail here at once,
 * without reading the records again.
 */
public final class FailingOnce extends RDD<InternalRow> {
  private static final long serialVersionUID = 1L;
  private static final int KEPT = 1_000;

  /** By the task without its attempt; the tasks that failed last. */
  private static final Map<String, Unconverted> FAILED =
      new LinkedHashMap<>() {
        private static final long serialVersionUID = 1L;

        @Override
        protected boolean removeEldestEntry(Map.Entry<String, Unconverted> eldest) {
          return size() > KEPT;
        }
      };

  private final RDD<InternalRow> rows;

  private FailingOnce(RDD<InternalRow> rows) {
    super(rows, ClassTag$.MODULE$.apply(InternalRow.class));
    this.rows = rows;
  }

  /** The same rows. */
  public static Dataset<Row> of(Dataset<Row> rows) {
    RDD<InternalRow> once = new FailingOnce(rows.queryExecution().toRdd());
    return rows.sparkSession().internalCreateDataFrame(once, rows.schema(), false);
  }

  @Override
  public Partition[] getPartitions() {
    return rows.partitions();
  }

  @Override
  public Iterator<InternalRow> compute(Partition partition, TaskContext context) {
    String task = context.stageId() + "/" + context.stageAttemptNumber() + "/" + context.partitionId();
    synchronized (FAILED) {
      Unconverted failed = FAILED.get(task);
      if (failed != null) {
        throw failed;
      }
    }
    Iterator<InternalRow> all = rows.iterator(partition, context);
    return new AbstractIterator<InternalRow>() {
      @Override
      public boolean hasNext() {
        try {
          return all.hasNext();
        } catch (RuntimeException error) {
          throw kept(task, error);
        }
      }

      @Override
      public InternalRow next() {
        try {
          return all.next();
        } catch (RuntimeException error) {
          throw kept(task, error);
        }
      }
    };
  }

  private static RuntimeException kept(String task, RuntimeException error) {
    if (!SlotResult.failed(error).blamesRows() && !MemoryBudget.isReason(error)) {
      return error;
    }
    Unconverted failed = new Unconverted(error.toString(), error);
    synchronized (FAILED) {
      FAILED.put(task, failed);
    }
    return failed;
  }
}
