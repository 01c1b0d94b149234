package dev.cooperator.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.Dependency;
import org.apache.spark.NarrowDependency;
import org.apache.spark.Partition;
import org.apache.spark.SparkThrowable;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.rdd.RDD;
import org.apache.spark.shuffle.FetchFailedException;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.Dataset;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/**
 * Runs a query on groups of its input's rows, each by itself, to find the rows that it fails for and why.
 *
 * <p>A query fails as a whole, and does not say for which row. Here each group of rows is a partition of its
 * own, and one task evaluates many such partitions one after the other, noting which of them fail. So no task
 * fails for a row, and a search costs one evaluation for each group, however many of them fail.
 */
public final class RowTrial {
  private static final int MESSAGE_LIMIT = 2_000;

  private RowTrial() {}

  /** The rows again, in order; each group of {@code size} rows is a partition. */
  public static Dataset<Row> grouped(Dataset<Row> rows, int size) {
    InternalRow[] all = rows.queryExecution().executedPlan().executeCollect();
    RDD<InternalRow> groups = new Groups(rows, all, size);
    return rows.sparkSession().internalCreateDataFrame(groups, rows.schema(), false);
  }

  /**
   * The groups that {@code converted} fails for, a query on {@code grouped} rows with {@code count} groups.
   * Those from {@code from} (inclusive) to {@code until} (exclusive) are tried. A JSON list of objects: group,
   * state (SQLSTATE), name (of the error's class) and message. An error without an SQLSTATE says nothing about
   * a row, and fails the job.
   */
  public static String failures(Dataset<Row> converted, int count, int from, int until)
      throws JsonProcessingException {
    RDD<InternalRow> partitions = converted.queryExecution().toRdd();
    if (partitions.getNumPartitions() != count) {
      throw new IllegalStateException(
          "the query does not treat each row by itself: of "
              + count
              + " partitions it makes "
              + partitions.getNumPartitions());
    }
    Object found = new Trial(partitions, from, until).collect();
    return new ObjectMapper().writeValueAsString(found);
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

  private static final class Group implements Partition {
    private final int index;
    private final InternalRow[] rows;

    Group(int index, InternalRow[] rows) {
      this.index = index;
      this.rows = rows;
    }

    @Override
    public int index() {
      return index;
    }
  }

  private static final class Groups extends RDD<InternalRow> {
    private final transient InternalRow[] rows;
    private final int size;

    Groups(Dataset<Row> of, InternalRow[] rows, int size) {
      super(of.sparkSession().sparkContext(), noDependencies(), tag(InternalRow.class));
      this.rows = rows;
      this.size = size;
    }

    @Override
    public Partition[] getPartitions() {
      List<Partition> groups = new ArrayList<>();
      for (int start = 0; start < rows.length; start += size) {
        int end = Math.min(rows.length, start + size);
        groups.add(new Group(groups.size(), Arrays.copyOfRange(rows, start, end)));
      }
      return groups.toArray(new Partition[0]);
    }

    @Override
    public Iterator<InternalRow> compute(Partition split, TaskContext context) {
      return CollectionConverters.asScala(List.of(((Group) split).rows).iterator());
    }
  }

  private static final class Some implements Partition {
    private final int index;
    private final Partition[] parents;

    Some(int index, Partition[] parents) {
      this.index = index;
      this.parents = parents;
    }

    @Override
    public int index() {
      return index;
    }
  }

  private static final class Trial extends RDD<Map<String, Object>> {
    private final RDD<InternalRow> query;
    private final transient int from;
    private final transient int until;

    Trial(RDD<InternalRow> query, int from, int until) {
      super(query.sparkContext(), seq(new Ranges(query, from, until)), tag(Map.class));
      this.query = query;
      this.from = from;
      this.until = until;
    }

    @Override
    public Partition[] getPartitions() {
      Partition[] all = query.partitions();
      List<Partition> tasks = new ArrayList<>();
      int size = size(query, from, until);
      for (int start = from; start < until; start += size) {
        int end = Math.min(until, start + size);
        tasks.add(new Some(tasks.size(), Arrays.copyOfRange(all, start, end)));
      }
      return tasks.toArray(new Partition[0]);
    }

    @Override
    public Iterator<Map<String, Object>> compute(Partition split, TaskContext context) {
      List<Map<String, Object>> found = new ArrayList<>();
      for (Partition group : ((Some) split).parents) {
        context.killTaskIfInterrupted();
        try {
          for (Iterator<InternalRow> rows = query.iterator(group, context); rows.hasNext(); ) {
            rows.next();
          }
        } catch (Exception error) {
          Map<String, Object> failure = aboutTheTask(error) ? null : told(error);
          if (failure == null) {
            throw error;
          }
          failure.put("group", group.index());
          found.add(failure);
        }
      }
      return CollectionConverters.asScala(found.iterator());
    }

    private static boolean aboutTheTask(Exception error) {
      return error instanceof TaskKilledException || error instanceof FetchFailedException;
    }
  }

  /** The groups that a task evaluates. */
  private static final class Ranges extends NarrowDependency<InternalRow> {
    private final int from;
    private final int until;
    private final int size;

    Ranges(RDD<InternalRow> query, int from, int until) {
      super(query);
      this.from = from;
      this.until = until;
      this.size = size(query, from, until);
    }

    @Override
    public Seq<Object> getParents(int task) {
      List<Object> parents = new ArrayList<>();
      int start = from + task * size;
      for (int number = start; number < Math.min(until, start + size); number++) {
        parents.add(number);
      }
      return CollectionConverters.asScala(parents).toSeq();
    }
  }

  private static int size(RDD<?> query, int from, int until) {
    // Half of the cores, so that the queries of other units run meanwhile.
    int tasks = Math.max(1, query.sparkContext().defaultParallelism() / 2);
    return Math.max(1, (until - from + tasks - 1) / tasks);
  }

  private static Seq<Dependency<?>> noDependencies() {
    return CollectionConverters.<Dependency<?>>asScala(List.<Dependency<?>>of()).toSeq();
  }

  private static Seq<Dependency<?>> seq(Dependency<?> one) {
    return CollectionConverters.<Dependency<?>>asScala(List.<Dependency<?>>of(one)).toSeq();
  }

  private static <T> ClassTag<T> tag(Class<?> kind) {
    return ClassTag$.MODULE$.apply(kind);
  }
}
