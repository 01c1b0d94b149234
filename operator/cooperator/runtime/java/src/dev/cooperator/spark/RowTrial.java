package dev.cooperator.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.BiPredicate;
import java.util.function.Predicate;
import java.util.function.Supplier;
import org.apache.spark.Dependency;
import org.apache.spark.Partition;
import org.apache.spark.SparkThrowable;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.rdd.RDD;
import org.apache.spark.shuffle.FetchFailedException;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.Dataset;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;

/**
 * Finds the rows that a query fails for, and why.
 *
 * <p>A query fails as a whole, and does not say for which row. One that treats each row by itself reads a row only once it
 * is done with the one before, so it has failed for the row that was read last; asked for more rows, it goes on with
 * the next one. So a search costs one evaluation of all rows, however many of them fail.
 */
public final class RowTrial {
  private static final int MESSAGE_LIMIT = 2_000;

  /** A query may make several rows of one, and fail for each of them. */
  private static final int MOST_OF_A_ROW = 10_000;

  private RowTrial() {}

  /** The rows again, in order; each group of {@code size} rows is a partition. */
  public static Dataset<Row> grouped(Dataset<Row> rows, int size) {
    InternalRow[] all = rows.queryExecution().executedPlan().executeCollect();
    RDD<InternalRow> groups = new Groups(rows, all, size);
    return rows.sparkSession().internalCreateDataFrame(groups, rows.schema(), false);
  }

  /**
   * The rows that {@code converted} fails for, a query on {@code grouped} rows with {@code count} groups. A JSON list
   * of objects: row (its number), state (SQLSTATE), name (of the error's class) and message. An error without an
   * SQLSTATE says nothing about a row, and fails the job.
   */
  public static String failures(Dataset<Row> converted, int count) throws JsonProcessingException {
    RDD<InternalRow> partitions = converted.queryExecution().toRdd();
    if (partitions.getNumPartitions() != count) {
      throw new IllegalStateException(
          "the query does not treat each row by itself: of "
              + count
              + " partitions it makes "
              + partitions.getNumPartitions());
    }
    return new ObjectMapper().writeValueAsString(new Trial(partitions).collect());
  }

  /**
   * Reads the rows of a query to their end; after each failure that {@code blames} a row it goes on, and throws others.
   *
   * @param last returns what the query has read last; null: nothing
   * @param found is told each of these that has failed, once; it returns whether to go on
   * @return whether it came to the end, or was told to stop; false if one of them has failed too often
   */
  static <T> boolean readOn(
      Iterator<InternalRow> rows,
      TaskContext context,
      Supplier<T> last,
      Predicate<Exception> blames,
      BiPredicate<T, Exception> found) {
    T failed = null;
    for (int again = 0; again < MOST_OF_A_ROW; ) {
      context.killTaskIfInterrupted();
      try {
        while (rows.hasNext()) {
          rows.next();
        }
        return true;
      } catch (Exception error) {
        T row = last.get();
        if (row == null || !blames.test(error)) {
          throw error;
        }
        again = row.equals(failed) ? again + 1 : 0;
        if (again == 0 && !found.test(row, error)) {
          return true;
        }
        failed = row;
      }
    }
    return false;
  }

  /** The error of a query: of the errors that led to it the first one that has an SQLSTATE; or null. */
  private static Map<String, Object> told(Throwable error) {
    Map<String, Object> found = null;
    for (Throwable cause = error; cause != null; cause = cause.getCause()) {
      if (cause instanceof SparkThrowable stated && stated.getSqlState() != null) {
        found = new TreeMap<>();
        String message = String.valueOf(cause.getMessage());
        found.put("state", stated.getSqlState());
        found.put("name", name(cause.getClass()));
        found.put("message", message.substring(0, Math.min(message.length(), MESSAGE_LIMIT)));
      }
    }
    return found;
  }

  /** The Java class that a class of Spark specialises (NumberFormatException), where there is one. */
  private static String name(Class<?> kind) {
    Class<?> parent = kind.getSuperclass();
    boolean special = parent.getName().startsWith("java.") && parent != Exception.class;
    return (special && parent != RuntimeException.class ? parent : kind).getSimpleName();
  }

  private record Group(int index, long first, InternalRow[] rows) implements Partition {}

  private static final class Groups extends RDD<InternalRow> {
    private static final long serialVersionUID = 1L;

    /** The number of the row that the thread's task has read last. */
    private static final ThreadLocal<Long> LAST = new ThreadLocal<>();

    private final transient InternalRow[] rows;
    private final int size;

    Groups(Dataset<Row> of, InternalRow[] rows, int size) {
      super(
          of.sparkSession().sparkContext(),
          CollectionConverters.<Dependency<?>>asScala(List.<Dependency<?>>of()).toSeq(),
          ClassTag$.MODULE$.apply(InternalRow.class));
      this.rows = rows;
      this.size = size;
    }

    @Override
    public Partition[] getPartitions() {
      List<Partition> groups = new ArrayList<>();
      for (int start = 0; start < rows.length; start += size) {
        int end = Math.min(rows.length, start + size);
        groups.add(new Group(groups.size(), start, Arrays.copyOfRange(rows, start, end)));
      }
      return groups.toArray(new Partition[0]);
    }

    @Override
    public Iterator<InternalRow> compute(Partition split, TaskContext context) {
      Group group = (Group) split;
      return new AbstractIterator<>() {
        private int index;

        @Override
        public boolean hasNext() {
          return index < group.rows().length;
        }

        @Override
        public InternalRow next() {
          LAST.set(group.first() + index);
          return group.rows()[index++];
        }
      };
    }
  }

  private static final class Trial extends RDD<Map<String, Object>> {
    private static final long serialVersionUID = 1L;
    private final RDD<InternalRow> query;

    Trial(RDD<InternalRow> query) {
      super(query, ClassTag$.MODULE$.apply(Map.class));
      this.query = query;
    }

    @Override
    public Partition[] getPartitions() {
      return query.partitions();
    }

    @Override
    public Iterator<Map<String, Object>> compute(Partition split, TaskContext context) {
      List<Map<String, Object>> found = new ArrayList<>();
      Iterator<InternalRow> rows = query.iterator(split, context);
      Groups.LAST.remove();
      // If a row fails too often, those after it are found when the others are converted together.
      readOn(
          rows,
          context,
          Groups.LAST::get,
          error -> !aboutTheTask(error) && told(error) != null,
          (row, error) -> {
            Map<String, Object> failure = told(error);
            failure.put("row", row);
            return found.add(failure);
          });
      return CollectionConverters.asScala(found.iterator());
    }

    private static boolean aboutTheTask(Exception error) {
      return error instanceof TaskKilledException || error instanceof FetchFailedException;
    }
  }
}
