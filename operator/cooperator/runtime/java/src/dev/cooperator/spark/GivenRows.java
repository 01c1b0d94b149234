package dev.cooperator.spark;

import java.util.Arrays;
import java.util.List;
import org.apache.spark.Dependency;
import org.apache.spark.Partition;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;

/**
 * Rows of the driver, in order, as one partition. They are broadcast, since a task that carried them could be
 * larger than a message may be.
 */
final class GivenRows extends RDD<InternalRow> {
  private static final long serialVersionUID = 1L;
  private final Broadcast<InternalRow[]> rows;

  private record Whole(int index) implements Partition {}

  GivenRows(SparkContext context, InternalRow[] rows) {
    super(
        context,
        CollectionConverters.<Dependency<?>>asScala(List.<Dependency<?>>of()).toSeq(),
        ClassTag$.MODULE$.apply(InternalRow.class));
    this.rows = context.broadcast(rows, ClassTag$.MODULE$.apply(InternalRow[].class));
  }

  /** Frees what the rows take; no task may run any more. */
  void free() {
    rows.destroy();
  }

  @Override
  public Partition[] getPartitions() {
    return new Partition[] {new Whole(0)};
  }

  @Override
  public Iterator<InternalRow> compute(Partition partition, TaskContext context) {
    return CollectionConverters.asScala(Arrays.asList(rows.value()).iterator());
  }
}
