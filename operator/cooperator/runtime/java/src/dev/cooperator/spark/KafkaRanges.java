package dev.cooperator.spark;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.util.CollectionAccumulator;

/**
 * A batch source of ranges of offsets, with the columns of Spark's Kafka source.
 *
 * <p>Options: {@code kafka.*} (of the consumer); {@code includeHeaders} (false); {@code failOnDataLoss} (true:
 * offsets of a range that were deleted are an error); {@code pollTimeoutMs} (120000: how long no range may
 * advance); {@code pool} (a name under which consumers are kept, see {@link RangeConsumers}); {@code collected}
 * (false: the rows are used one after the other; true: all are held in memory, so that more than {@link
 * MemoryBudget#COLLECTED} fail); and either
 *
 * <ul>
 *   <li>{@code ranges}: {@code [[[topic, partition, from, to], …], …]}, a list for each Spark partition, or
 *   <li>{@code slots}: the number of Spark partitions, whose ranges {@link KafkaTransactions} gives to each
 *       batch. So one plan serves all batches.
 * </ul>
 */
public final class KafkaRanges implements TableProvider {
  static final String HEADERS = "headers";

  /** The time of a record as it is; the column {@code timestamp} is null where it is no TIMESTAMP. */
  static final String TIMESTAMP_MS = "timestampMs";

  static final DataType HEADERS_TYPE =
      DataTypes.createArrayType(
          new StructType().add("key", DataTypes.StringType).add("value", DataTypes.BinaryType));

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return schema(options.getBoolean("includeHeaders", false));
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return PrunedScan.table("KafkaRanges", schema, options -> new RangesScan(schema, options));
  }

  static StructType schema(boolean headers) {
    StructType columns =
        new StructType()
            .add("key", DataTypes.BinaryType)
            .add("value", DataTypes.BinaryType)
            .add("topic", DataTypes.StringType)
            .add("partition", DataTypes.IntegerType)
            .add("offset", DataTypes.LongType)
            .add("timestamp", DataTypes.TimestampType)
            .add(TIMESTAMP_MS, DataTypes.LongType);
    return headers ? columns.add(HEADERS, HEADERS_TYPE) : columns;
  }

  private static final class RangesScan extends PrunedScan {
    RangesScan(StructType columns, CaseInsensitiveStringMap options) {
      super("KafkaRanges", columns, options);
    }

    /** The bytes of one Spark partition; there may be none, for a batch without records. */
    private long partOfOne() {
      return MemoryBudget.COLLECTED / Math.max(1, planInputPartitions().length);
    }

    @Override
    public InputPartition[] planInputPartitions() {
      List<RangesPartition> found = new ArrayList<>();
      if (options.containsKey("ranges")) {
        for (List<OffsetRange> ranges : OffsetRange.partitions(options.get("ranges"))) {
          found.add(new RangesPartition(found.size(), ranges));
        }
      } else {
        int slots = options.getInt("slots", 0);
        if (slots < 1) {
          throw new IllegalArgumentException("KafkaRanges: set option ranges, or slots to 1 or more");
        }
        for (int slot = 0; slot < slots; slot++) {
          found.add(new RangesPartition(slot, null));
        }
      }
      return found.toArray(InputPartition[]::new);
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
      Map<String, String> consumer = new TreeMap<>();
      options
          .asCaseSensitiveMap()
          .forEach(
              (name, value) -> {
                if (name.startsWith("kafka.")) {
                  consumer.put(name.substring("kafka.".length()), value);
                }
              });
      List<String> names = new ArrayList<>();
      for (StructField field : readSchema().fields()) {
        names.add(field.name());
      }
      return new RangesReaderFactory(
          names,
          consumer,
          options.getOrDefault("pool", ""),
          options.getBoolean("failOnDataLoss", true),
          options.getLong("pollTimeoutMs", 120_000),
          RangeCounts.of(options.get("counts")),
          options.getBoolean("collected", false) ? partOfOne() : Long.MAX_VALUE);
    }
  }

  /** The ranges of a Spark partition; null: those of the batch that runs. */
  private record RangesPartition(int slot, List<OffsetRange> ranges) implements InputPartition {}

  private record RangesReaderFactory(
      List<String> columns,
      Map<String, String> consumer,
      String pool,
      boolean failOnDataLoss,
      long pollTimeoutMs,
      CollectionAccumulator<long[]> counts,
      long most)
      implements PartitionReaderFactory {
    @Override
    public PartitionReader<InternalRow> createReader(InputPartition partition) {
      RangesPartition planned = (RangesPartition) partition;
      return new RangesReader(
          columns,
          most,
          planned.ranges() == null ? null : Collections.unmodifiableList(planned.ranges()),
          () -> RangeConsumers.take(consumer, pool + "/" + planned.slot(), failOnDataLoss, pollTimeoutMs),
          read -> {
            if (counts != null && planned.ranges() != null) {
              long records = planned.ranges().stream().mapToLong(read::count).sum();
              counts.add(new long[] {planned.slot(), records});
            }
          });
    }
  }
}
