package dev.cooperator.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.IntStream;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.storage.BlockManagerId;
import scala.Function2;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction2;
import scala.runtime.BoxedUnit;

/**
 * Runs batches of a query over {@link KafkaRanges}, each as one Spark job with a transaction for each slot.
 *
 * <p>A slot is a Spark partition with a transactional id of its own. Its Spark task reads the ranges that the
 * batch gives to the slot, and commits the query's rows with the positions that they reach. Nothing is
 * retried: a failure is a result, by which the caller recovers. The query is planned once for all batches.
 *
 * <p>It is not a sink of Spark's DataSource V2, whose write plans the query anew for each batch, costs events
 * with the plan's text, repeats failed tasks, and ends the other slots when one fails. It is not thread-safe.
 */
public final class KafkaTransactions {
  static final ObjectMapper JSON = new ObjectMapper();

  static {
    MemoryBudget.watch();
  }

  private final RDD<InternalRow> rows;
  private final GivenRows given;
  private final SlotWriter.Target target;
  private final boolean isReusable;

  private KafkaTransactions(QueryExecution query, SlotWriter.Target target, int slots) {
    this(query.toRdd(), null, target, !variesByBatch(query.analyzed()));
    if (rows.getNumPartitions() != slots) {
      throw new IllegalArgumentException(
          "the query's plan has " + rows.getNumPartitions() + " Spark partitions instead of " + slots
              + ": the SQL must keep each record where it was read");
    }
  }

  private KafkaTransactions(
      RDD<InternalRow> rows, GivenRows given, SlotWriter.Target target, boolean isReusable) {
    this.rows = new PlacedRows(rows, target.idPrefix());
    this.given = given;
    this.target = target;
    this.isReusable = isReusable;
  }

  /**
   * Plans a query, with columns value and optionally topic, partition, key, headers, timestamp (ms).
   *
   * @param target JSON: {@code id_prefix} of transactional ids, the topic {@code positions}, {@code slots}
   *     (as the source's option says), and {@code settings} of the producer
   */
  public static KafkaTransactions plan(QueryExecution query, String target) throws IOException {
    return new KafkaTransactions(query, target(query, target), JSON.readTree(target).get("slots").asInt());
  }

  /**
   * Writes rows that were read and converted before, by {@link #run} with {@code given} and one slot. They have
   * the columns of {@link #plan}; the producers are those of the plan with the same target.
   */
  public static KafkaTransactions given(QueryExecution query, String target) throws IOException {
    GivenRows rows = new GivenRows(query.sparkSession().sparkContext(), query.executedPlan().executeCollect());
    return new KafkaTransactions(rows, rows, target(query, target), false);
  }

  private static SlotWriter.Target target(QueryExecution query, String text) throws IOException {
    JsonNode node = JSON.readTree(text);
    return new SlotWriter.Target(
        settings(node), node.get("id_prefix").asText(), node.get("positions").asText(), columns(query));
  }

  /** Returns JSON with {@code kind} and {@code error}, as {@link #run} does for a slot. */
  public static String failure(Throwable error) {
    return SlotResult.failed(error).json().toString();
  }

  /** Whether the plan serves another batch: not if it has a time of its own, or random numbers. */
  public boolean isReusable() {
    return isReusable;
  }

  /**
   * Initialises the producers of all slots for the batches of a session, which fences earlier producers of the
   * same ids. If there are executors, each slot gets one, on which its batches should run.
   *
   * <p>Returns an empty text, or JSON with {@code kind} and {@code error} as {@link #run} does.
   */
  public String open(String session) {
    int slots = rows.getNumPartitions();
    PlacedRows.forget(target.idPrefix());
    if (rows.sparkContext().isLocal()) {
      try {
        SlotProducers.open(target.settings(), target.ids(slots), session);
        return "";
      } catch (KafkaException error) {
        return SlotResult.failed(error).json().toString();
      }
    }
    Opening.Result[] results = new Opening.Result[slots];
    runJob(rows, new Opening(target, session), first(slots), results, Opening.Result.class);
    Map<Integer, String> places = new TreeMap<>();
    for (int slot = 0; slot < slots; slot++) {
      if (results[slot].failure() != null) {
        return results[slot].failure().json().toString();
      }
      places.put(slot, results[slot].place());
    }
    PlacedRows.place(target.idPrefix(), places);
    return "";
  }

  /** Frees the rows that were {@link #given}, once nothing runs. */
  public void free() {
    if (given != null) {
      given.free();
    }
  }

  /** Closes the producers of all slots, and aborts what they have not committed. Executors close theirs later. */
  public void close() {
    PlacedRows.forget(target.idPrefix());
    SlotProducers.close(target.ids(rows.getNumPartitions()));
  }

  /**
   * Runs a batch and waits for it.
   *
   * @param batch JSON: {@code session}, and {@code slots}, for each slot its units: {@code [topic, partition,
   *     from, to, key, value, positionsPartition]}, for {@link FilePieces} and {@link TableRows} followed by the
   *     pieces to read, by records to commit with them, and by a {@link TableRead} of {@code server}; optionally
   *     {@code topics}, for each slot the topic of rows without one; {@code letters}, each with its slot, as {@link
   *     SlotWork.Letter} reads them; and {@code given} (false)
   * @return JSON: {@code slots}, for each slot {@code {"rows": count, "counts": [records of a unit, …]}} or
   *     {@code {"kind": …, "error": …}} with the kinds of {@link SlotResult#failed}
   */
  public String run(String batch) throws IOException {
    JsonNode node = JSON.readTree(batch);
    List<SlotWork> works = new ArrayList<>();
    for (JsonNode slot : node.get("slots")) {
      List<SlotWork.Unit> units = new ArrayList<>();
      for (JsonNode unit : slot) {
        List<FilePiece> pieces = new ArrayList<>();
        List<SlotWork.Beside> beside = new ArrayList<>();
        unit.path(7).forEach(each -> pieces.add(FilePiece.of(each)));
        unit.path(8).forEach(each -> beside.add(SlotWork.Beside.of(each)));
        units.add(
            new SlotWork.Unit(
                OffsetRange.of(unit),
                unit.get(4).asText(),
                unit.get(5).asText(),
                unit.get(6).asInt(),
                pieces,
                beside,
                unit.path(9).isObject() ? TableRead.of(unit.get(9), node.get("server")) : null));
      }
      JsonNode topic = node.path("topics").path(works.size());
      works.add(
          new SlotWork(
              works.size(),
              node.get("session").asText(),
              units,
              topic.isTextual() ? topic.asText() : null,
              node.path("given").asBoolean()));
    }
    for (JsonNode letter : node.path("letters")) {
      works.get(letter.get(0).asInt()).letters.add(SlotWork.Letter.of(letter.get(1)));
    }
    SlotResult[] results = new SlotResult[works.size()];
    SlotTask task = new SlotTask(target, works.toArray(SlotWork[]::new));
    runJob(rows, task, first(works.size()), results, SlotResult.class);
    ObjectNode answer = JSON.createObjectNode();
    for (SlotResult result : results) {
      answer.withArray("slots").add(result.json());
    }
    return answer.toString();
  }

  private static List<Object> first(int slots) {
    return IntStream.range(0, slots).<Object>mapToObj(slot -> slot).toList();
  }

  /** Runs a function in a Spark task of each of the slots; {@code results} gets theirs by their numbers. */
  static <T> void runJob(
      RDD<InternalRow> rows,
      Function2<TaskContext, Iterator<InternalRow>, T> function,
      List<Object> slots,
      T[] results,
      Class<T> type) {
    // Spark passes the index of a slot in the list.
    Function2<Object, T, BoxedUnit> keep =
        new AbstractFunction2<>() {
          @Override
          public BoxedUnit apply(Object index, T result) {
            results[(Integer) slots.get((Integer) index)] = result;
            return BoxedUnit.UNIT;
          }
        };
    rows.sparkContext()
        .runJob(rows, function, CollectionConverters.asScala(slots).toList(), keep, ClassTag$.MODULE$.apply(type));
  }

  private static Map<String, String> settings(JsonNode target) {
    Map<String, String> found = new TreeMap<>();
    target.get("settings").properties().forEach(each -> found.put(each.getKey(), each.getValue().asText()));
    return found;
  }

  /**
   * Whether the Spark task ends with an error instead of a result. A lack of memory is a result: what the task has held
   * is free then, and Spark would end the JVM with all other tasks.
   */
  static boolean isOver(Throwable error, TaskContext context) {
    boolean isJvms = error instanceof VirtualMachineError && !(error instanceof OutOfMemoryError);
    return isJvms || context.isInterrupted();
  }

  /** Returns what ends the Spark task; it throws an error of the JVM itself. */
  static RuntimeException rethrown(Throwable error) {
    if (error instanceof Error) {
      throw (Error) error;
    }
    return error instanceof TaskKilledException
        ? (TaskKilledException) error
        : new KafkaException("the Spark task was cancelled", error);
  }

  /** Runs in the Spark task of a slot. */
  private static final class SlotTask
      extends AbstractFunction2<TaskContext, Iterator<InternalRow>, SlotResult> implements Serializable {
    private static final long serialVersionUID = 1L;
    private final SlotWriter.Target target;
    private final SlotWork[] works;

    SlotTask(SlotWriter.Target target, SlotWork[] works) {
      this.target = target;
      this.works = works;
    }

    @Override
    public SlotResult apply(TaskContext context, Iterator<InternalRow> rows) {
      SlotWriter writer = null;
      try {
        if (context.attemptNumber() > 0) {
          throw new Repeated();
        }
        SlotWork work = works[context.partitionId()];
        work.enter(context);
        writer = new SlotWriter(target, work);
        long count = writer.writeLetters();
        for (; rows.hasNext(); count++) {
          writer.write(rows.next());
        }
        writer.commit();
        return SlotResult.done(count, work.counts());
      } catch (Throwable error) {
        SlotResult failed = SlotResult.failed(error);
        boolean isOver = isOver(error, context);
        if (writer != null && failed.blamesRows() && !isOver) {
          return writer.undo(failed);
        }
        if (writer != null) {
          writer.abort();
        }
        if (isOver) {
          throw rethrown(error);
        }
        return failed;
      } finally {
        SlotWork.leave(context);
      }
    }
  }

  /** Opens a slot's producer on an executor. */
  private static final class Opening
      extends AbstractFunction2<TaskContext, Iterator<InternalRow>, Opening.Result> implements Serializable {
    private static final long serialVersionUID = 1L;
    private final SlotWriter.Target target;
    private final String session;

    /** The place as Spark names it; the failure is null if there was none. */
    record Result(String place, SlotResult failure) implements Serializable {}

    Opening(SlotWriter.Target target, String session) {
      this.target = target;
      this.session = session;
    }

    @Override
    public Result apply(TaskContext context, Iterator<InternalRow> rows) {
      BlockManagerId executor = SparkEnv.get().blockManager().blockManagerId();
      try {
        SlotProducers.openOnExecutor(
            target.settings(), SlotWriter.Target.id(target.idPrefix(), context.partitionId()), session);
        return new Result("executor_" + executor.host() + "_" + executor.executorId(), null);
      } catch (KafkaException error) {
        return new Result(null, SlotResult.failed(error));
      }
    }
  }

  /** The output of the first attempt is unknown, until the caller recovers. */
  private static final class Repeated extends RetriableException {
    private static final long serialVersionUID = 1L;

    Repeated() {
      super("an executor was lost");
    }
  }

  private static SlotWriter.Columns columns(QueryExecution query) {
    List<Attribute> output = CollectionConverters.asJava(query.executedPlan().output());
    return new SlotWriter.Columns(
        column(output, "topic", false, DataTypes.StringType),
        column(output, "partition", false, DataTypes.IntegerType),
        column(output, "key", false, DataTypes.BinaryType, DataTypes.StringType),
        column(output, "value", true, DataTypes.BinaryType, DataTypes.StringType),
        column(output, "headers", false, KafkaRanges.HEADERS_TYPE),
        column(output, "timestamp", false, DataTypes.LongType));
  }

  private static int column(List<Attribute> output, String name, boolean isNeeded, DataType... types) {
    for (int index = 0; index < output.size(); index++) {
      if (output.get(index).name().equalsIgnoreCase(name)) {
        DataType type = output.get(index).dataType();
        for (DataType allowed : types) {
          if (DataType.equalsIgnoreNullability(allowed, type)) {
            return index;
          }
        }
        throw new IllegalArgumentException(
            "column " + name + " is of type " + type.sql() + ": use " + types[0].sql());
      }
    }
    if (isNeeded) {
      throw new IllegalArgumentException("the rows have no column " + name + ": select one");
    }
    return -1;
  }

  /** Whether the optimizer or the analyzer puts something into the plan that must differ between batches. */
  static boolean variesByBatch(LogicalPlan plan) {
    return !plan.deterministic() || plan.containsPattern(TreePattern.CURRENT_LIKE());
  }
}
