package dev.cooperator.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.IntStream;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.storage.BlockManagerId;
import scala.collection.Iterator;
import scala.runtime.AbstractFunction2;

/**
 * Runs batches of a query over {@link KafkaRanges}, each as one Spark job with a transaction of PostgreSQL for
 * each slot.
 *
 * <p>A slot is a Spark partition. Its Spark task reads the ranges that the batch gives to the slot, copies the
 * query's rows, and moves the positions of these ranges in the same transaction ({@link CopyWriter}). Nothing
 * is retried: a failure is a result, by which the caller recovers. The query is planned once for all batches.
 * All statements come from the caller. It is not thread-safe.
 */
public final class CopyTransactions {
  private final RDD<InternalRow> rows;
  private final String idPrefix;
  private final CopyLine.Column[] columns;
  private final boolean isReusable;

  private CopyTransactions(QueryExecution query, String idPrefix, CopyLine.Column[] columns, int slots) {
    RDD<InternalRow> planned = query.toRdd();
    if (planned.getNumPartitions() != slots) {
      throw new IllegalArgumentException(
          "the query's plan has " + planned.getNumPartitions() + " Spark partitions instead of " + slots
              + ": the SQL must keep each record where it was read");
    }
    this.rows = new PlacedRows(planned, idPrefix);
    this.idPrefix = idPrefix;
    this.columns = columns;
    this.isReusable = !KafkaTransactions.variesByBatch(query.analyzed());
  }

  /**
   * Plans a query.
   *
   * @param target JSON: {@code id_prefix} of the slots' connections, {@code slots} (as the source's option
   *     says), and {@code columns} of the query, each as {@code [name, form]} (see {@link CopyLine})
   */
  public static CopyTransactions plan(QueryExecution query, String target) throws IOException {
    JsonNode node = KafkaTransactions.JSON.readTree(target);
    List<CopyLine.Column> columns = new ArrayList<>();
    for (JsonNode column : node.get("columns")) {
      columns.add(
          new CopyLine.Column(column.get(0).asText(), CopyLine.Form.valueOf(column.get(1).asText())));
    }
    return new CopyTransactions(
        query,
        node.get("id_prefix").asText(),
        columns.toArray(CopyLine.Column[]::new),
        node.get("slots").asInt());
  }

  /** Whether the plan serves another batch: not if it has a time of its own, or random numbers. */
  public boolean isReusable() {
    return isReusable;
  }

  /** Closes the connections of all slots. Executors close theirs soon, see {@link SlotConnections}. */
  public void close() {
    PlacedRows.forget(idPrefix);
    SlotConnections.close(IntStream.range(0, rows.getNumPartitions()).mapToObj(this::id).toList());
  }

  private String id(int slot) {
    return id(idPrefix, slot);
  }

  private static String id(String prefix, int slot) {
    return prefix + "/" + slot;
  }

  /**
   * Runs a batch and waits for it.
   *
   * @param batch JSON: {@code server} ({@code url}, {@code address} and {@code settings} of connections); the
   *     statements {@code check} and {@code advance}, with the moves as their parameter; and {@code slots}, for
   *     each its number {@code slot}, {@code ranges} ({@code [topic, partition, from, to]}), {@code moves}, and
   *     the statements {@code before}, {@code copy} and {@code after}, and the {@code table}
   *     ({@code name}, and {@code query} and {@code digest} of its description)
   * @return JSON: {@code slots}, for each of them {@code {"rows": count, "counts": [records of a range, …]}} or
   *     {@code {"kind": …, "error": …}} as {@link KafkaTransactions#run} returns them
   */
  public String run(String batch) throws IOException {
    JsonNode node = KafkaTransactions.JSON.readTree(batch);
    Map<Integer, CopyWork> works = new TreeMap<>();
    for (JsonNode slot : node.get("slots")) {
      List<OffsetRange> ranges = new ArrayList<>();
      slot.get("ranges").forEach(range -> ranges.add(OffsetRange.of(range)));
      works.put(
          slot.get("slot").asInt(),
          new CopyWork(
              ranges,
              slot.get("moves").asText(),
              texts(slot.get("before")),
              slot.get("copy").asText(),
              texts(slot.get("after")),
              new CopyWork.Table(
                  slot.get("table").get("name").asText(),
                  slot.get("table").get("query").asText(),
                  slot.get("table").get("digest").asText())));
    }
    CopyTarget target =
        new CopyTarget(
            SlotConnections.Server.of(node.get("server")),
            idPrefix,
            columns,
            node.get("check").asText(),
            node.get("advance").asText());
    Result[] results = new Result[rows.getNumPartitions()];
    KafkaTransactions.runJob(
        rows, new SlotTask(target, works), new ArrayList<>(works.keySet()), results, Result.class);
    ObjectNode answer = KafkaTransactions.JSON.createObjectNode();
    Map<Integer, String> places = new TreeMap<>();
    for (int slot : works.keySet()) {
      answer.withArray("slots").add(results[slot].result().json());
      places.put(slot, results[slot].place());
    }
    if (!rows.sparkContext().isLocal()) {
      PlacedRows.add(idPrefix, places);
    }
    return answer.toString();
  }

  private static String[] texts(JsonNode array) {
    List<String> found = new ArrayList<>();
    array.forEach(each -> found.add(each.asText()));
    return found.toArray(String[]::new);
  }

  /** The place of the connection, as Spark names it. */
  private record Result(SlotResult result, String place) implements Serializable {}

  /** Runs in the Spark task of a slot. */
  private static final class SlotTask
      extends AbstractFunction2<TaskContext, Iterator<InternalRow>, Result> implements Serializable {
    private static final long serialVersionUID = 1L;
    private final CopyTarget target;
    private final Map<Integer, CopyWork> works;

    SlotTask(CopyTarget target, Map<Integer, CopyWork> works) {
      this.target = target;
      this.works = works;
    }

    /**
     * Spark may repeat it after the loss of an executor. The positions then tell whether the first attempt has
     * committed, or will not.
     */
    @Override
    public Result apply(TaskContext context, Iterator<InternalRow> rows) {
      CopyWork work = works.get(context.partitionId());
      SlotWork read = SlotWork.of(context.partitionId(), work.ranges());
      BlockManagerId executor = SparkEnv.get().blockManager().blockManagerId();
      String place = "executor_" + executor.host() + "_" + executor.executorId();
      String id = id(target.idPrefix(), context.partitionId());
      try (CopyWriter writer = new CopyWriter(target, work, id, context::isInterrupted)) {
        read.enter(context);
        long count = 0;
        for (; rows.hasNext(); count++) {
          writer.write(rows.next());
        }
        read.checkIsRead();
        writer.commit();
        return new Result(SlotResult.done(count, read.counts()), place);
      } catch (Throwable error) {
        if (KafkaTransactions.isOver(error, context)) {
          throw KafkaTransactions.rethrown(error);
        }
        return new Result(SlotResult.failed(error), place);
      } finally {
        SlotWork.leave(context);
      }
    }
  }
}
