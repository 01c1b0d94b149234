package dev.cooperator.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A batch source of rows of PostgreSQL's tables, which {@link KafkaTransactions} gives to each batch; so one
 * plan serves all of them.
 *
 * <p>Options: {@code slots}, the number of Spark partitions; or {@code read}, the JSON of one {@link TableRead},
 * whose rows are one partition. {@code columns} is JSON of the columns of the rows ({@link TableColumn}); without
 * it, rows are records, with columns topic, key and value.
 */
public final class TableRows implements TableProvider {
  private static final StructType RECORDS =
      new StructType()
          .add("topic", DataTypes.StringType)
          .add("key", DataTypes.BinaryType)
          .add("value", DataTypes.BinaryType);

  /** Closes the connections of a task's slots in this JVM. */
  public static void close(String pool, int slots) {
    SlotConnections.close(IntStream.range(0, slots).mapToObj(slot -> TableRead.id(pool, slot)).toList());
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    String columns = options.get("columns");
    if (columns == null) {
      return RECORDS;
    }
    StructType schema = new StructType();
    for (TableColumn column : TableColumn.list(json(columns))) {
      schema = schema.add(column.name(), column.type());
    }
    return schema;
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return PrunedScan.table("TableRows", schema, options -> new RowsScan(schema, options));
  }

  private static JsonNode json(String text) {
    try {
      return KafkaTransactions.JSON.readTree(text);
    } catch (IOException error) {
      throw new IllegalArgumentException("TableRows: an option is not JSON", error);
    }
  }

  private static final class RowsScan extends PrunedScan {
    RowsScan(StructType schema, CaseInsensitiveStringMap options) {
      super("TableRows", schema, options);
    }

    @Override
    public InputPartition[] planInputPartitions() {
      String read = options.get("read");
      if (read != null) {
        return new InputPartition[] {new Slot(0, TableRead.of(json(read)))};
      }
      int slots = options.getInt("slots", 0);
      if (slots < 1) {
        throw new IllegalArgumentException("TableRows: set option slots to 1 or more");
      }
      return IntStream.range(0, slots)
          .mapToObj(slot -> new Slot(slot, null))
          .toArray(InputPartition[]::new);
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
      List<String> names = new ArrayList<>(Stream.of(readSchema().fieldNames()).toList());
      return new RowsReaderFactory(names, options.get("columns") == null);
    }
  }

  /** {@code read} null: the running Spark task's work tells what to read. */
  private record Slot(int number, TableRead read) implements InputPartition {}

  private record RowsReaderFactory(List<String> columns, boolean areRecords)
      implements PartitionReaderFactory {
    @Override
    public PartitionReader<InternalRow> createReader(InputPartition partition) {
      return new TableReader(columns, areRecords, ((Slot) partition).read());
    }
  }
}
