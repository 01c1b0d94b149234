package dev.cooperator.spark;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;

/** Rows whose partitions are read where the producers of their slots are open, if that executor is alive. */
final class PlacedRows extends RDD<InternalRow> {
  private static final long serialVersionUID = 1L;

  /** On the driver: from prefixes of transactional ids to the places of slots. */
  private static final Map<String, Map<Integer, String>> PLACES = new ConcurrentHashMap<>();

  private final RDD<InternalRow> rows;
  private final String idPrefix;

  PlacedRows(RDD<InternalRow> rows, String idPrefix) {
    super(rows, ClassTag$.MODULE$.apply(InternalRow.class));
    this.rows = rows;
    this.idPrefix = idPrefix;
  }

  static void place(String idPrefix, Map<Integer, String> places) {
    PLACES.put(idPrefix, places);
  }

  /** Adds places; those of other slots stay. */
  static void add(String idPrefix, Map<Integer, String> places) {
    Map<Integer, String> all = new TreeMap<>(PLACES.getOrDefault(idPrefix, Map.of()));
    all.putAll(places);
    PLACES.put(idPrefix, all);
  }

  static void forget(String idPrefix) {
    PLACES.remove(idPrefix);
  }

  @Override
  public Iterator<InternalRow> compute(Partition partition, TaskContext context) {
    return rows.iterator(partition, context);
  }

  @Override
  public Partition[] getPartitions() {
    return rows.partitions();
  }

  @Override
  public Seq<String> getPreferredLocations(Partition partition) {
    String place = PLACES.getOrDefault(idPrefix, Map.of()).get(partition.index());
    return CollectionConverters.asScala(place == null ? List.<String>of() : List.of(place)).toList();
  }
}
