package dev.cooperator.spark;

import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.SparkSession;
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
import org.apache.spark.util.SerializableConfiguration;
import scala.reflect.ClassTag$;

/**
 * A batch source of pieces of text files, which {@link KafkaTransactions} gives to each batch; so one plan
 * serves all of them. Its columns are {@code path}, below the directory, and {@code line}.
 *
 * <p>Options: {@code path} (the directory), {@code slots} (the number of Spark partitions), {@code wholetext}
 * (false: a record is a line; true: a file).
 */
public final class FilePieces implements TableProvider {
  static final String PATH = "path";
  static final String LINE = "line";
  private static final StructType SCHEMA =
      new StructType().add(PATH, DataTypes.StringType).add(LINE, DataTypes.StringType);

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return SCHEMA;
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return PrunedScan.table("FilePieces", SCHEMA, PiecesScan::new);
  }

  private static final class PiecesScan extends PrunedScan {
    PiecesScan(CaseInsensitiveStringMap options) {
      super("FilePieces", SCHEMA, options);
    }

    @Override
    public InputPartition[] planInputPartitions() {
      int slots = options.getInt("slots", 0);
      if (slots < 1) {
        throw new IllegalArgumentException("FilePieces: set option slots to 1 or more");
      }
      return IntStream.range(0, slots).mapToObj(Slot::new).toArray(InputPartition[]::new);
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
      SparkSession session = SparkSession.active();
      Configuration conf =
          ((org.apache.spark.sql.classic.SparkSession) session).sessionState().newHadoopConf();
      Broadcast<SerializableConfiguration> shared =
          ((org.apache.spark.sql.classic.SparkSession) session)
              .sparkContext()
              .broadcast(
                  new SerializableConfiguration(conf),
                  ClassTag$.MODULE$.apply(SerializableConfiguration.class));
      List<String> names = Stream.of(readSchema().fieldNames()).toList();
      return new PiecesReaderFactory(
          names, options.get("path"), options.getBoolean("wholetext", false), shared);
    }
  }

  private record Slot(int number) implements InputPartition {}

  private record PiecesReaderFactory(
      List<String> columns, String root, boolean wholetext, Broadcast<SerializableConfiguration> conf)
      implements PartitionReaderFactory {
    @Override
    public PartitionReader<InternalRow> createReader(InputPartition partition) {
      return new PiecesReader(columns, root, wholetext, conf.value().value());
    }
  }
}
