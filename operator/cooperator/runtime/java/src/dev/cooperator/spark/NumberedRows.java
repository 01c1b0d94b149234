package dev.cooperator.spark;

import java.util.Arrays;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.InputFileBlockHolder;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.Dataset;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.reflect.ClassTag$;

/**
 * Rows that tell each row of a query's result which of them it was made of.
 *
 * <p>A query that treats each row by itself pulls one row after the other. Each row states its number as the
 * "start of the block in the input file", which Spark keeps for each thread; {@code
 * input_file_block_start()} in the query's last projection returns it, whichever columns the query has dropped.
 */
public final class NumberedRows extends RDD<InternalRow> {
  private static final long serialVersionUID = 1L;

  private final RDD<InternalRow> rows;
  private final int column;

  private NumberedRows(RDD<InternalRow> rows, int column) {
    super(rows, ClassTag$.MODULE$.apply(InternalRow.class));
    this.rows = rows;
    this.column = column;
  }

  /** The same rows; {@code column}, a BIGINT that is never null, has their numbers. */
  public static Dataset<Row> of(Dataset<Row> rows, String column) {
    int place = Arrays.asList(rows.schema().fieldNames()).indexOf(column);
    RDD<InternalRow> numbered = new NumberedRows(rows.queryExecution().toRdd(), place);
    return rows.sparkSession().internalCreateDataFrame(numbered, rows.schema(), false);
  }

  @Override
  public Partition[] getPartitions() {
    return rows.partitions();
  }

  @Override
  public Iterator<InternalRow> compute(Partition partition, TaskContext context) {
    Iterator<InternalRow> all = rows.iterator(partition, context);
    return new AbstractIterator<InternalRow>() {
      @Override
      public boolean hasNext() {
        boolean more = all.hasNext();
        if (!more) {
          InputFileBlockHolder.unset();
        }
        return more;
      }

      @Override
      public InternalRow next() {
        InternalRow row = all.next();
        InputFileBlockHolder.set("", row.getLong(column), 0);
        return row;
      }
    };
  }
}
