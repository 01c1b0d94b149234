package dev.cooperator.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.reflect.ClassTag$;

/**
 * Records whose keys and values are decoded by the schemas that they bring ({@code avro}, {@code
 * json-schema}), where their types are known beforehand.
 *
 * <p>It is an RDD below the query, not functions in it: the optimizer would drop the decoding of a column that
 * the query does not use, and with it the refusal of bytes that cannot be decoded. Each row must be used before
 * the next one is read, as Spark's operators do.
 */
public final class DecodedRows extends RDD<InternalRow> {
  private static final long serialVersionUID = 1L;

  private final RDD<InternalRow> rows;
  private final DataType[] types;
  private final List<Column> columns;

  /** {@code type} is Spark's JSON; {@code schemas} are texts by id, each after those that it refers to. */
  record Column(String name, int place, String converter, String type, Map<Integer, List<String>> schemas)
      implements Serializable {}

  private DecodedRows(RDD<InternalRow> rows, DataType[] types, List<Column> columns) {
    super(rows, ClassTag$.MODULE$.apply(InternalRow.class));
    this.rows = rows;
    this.types = types;
    this.columns = columns;
  }

  /**
   * The records with some columns decoded; the other columns stay as they are.
   *
   * @param columns JSON: a list of objects with {@code name}, {@code converter}, {@code type} and, for avro,
   *     {@code schemas} (from ids to lists of texts)
   */
  public static Dataset<Row> of(Dataset<Row> records, String columns) throws IOException {
    StructField[] fields = records.schema().fields();
    List<String> names = Arrays.asList(records.schema().fieldNames());
    List<Column> found = new ArrayList<>();
    for (JsonNode node : KafkaTransactions.JSON.readTree(columns)) {
      Column column = column(node, names.indexOf(node.get("name").asText()));
      ValueReader.of(column); // Throws here what every task would throw.
      DataType type = DataType.fromJson(column.type());
      fields[column.place()] = new StructField(column.name(), type, true, fields[column.place()].metadata());
      found.add(column);
    }
    DataType[] types = Arrays.stream(records.schema().fields()).map(StructField::dataType).toArray(DataType[]::new);
    RDD<InternalRow> decoded = new DecodedRows(records.queryExecution().toRdd(), types, found);
    return records.sparkSession().internalCreateDataFrame(decoded, new StructType(fields), false);
  }

  /** Returns why values of this Avro schema cannot be read as {@code type} (Spark's JSON); empty: they can. */
  public static String avroProblem(String schemas, String type) throws IOException {
    List<String> texts = new ArrayList<>();
    KafkaTransactions.JSON.readTree(schemas).forEach(text -> texts.add(text.asText()));
    try {
      new AvroValues(Map.of(0, texts), DataType.fromJson(type));
      return "";
    } catch (RuntimeException error) {
      return String.valueOf(error.getMessage());
    }
  }

  private static Column column(JsonNode node, int place) {
    Map<Integer, List<String>> schemas = new LinkedHashMap<>();
    node.path("schemas").properties().forEach(each -> {
      List<String> texts = new ArrayList<>();
      each.getValue().forEach(text -> texts.add(text.asText()));
      schemas.put(Integer.valueOf(each.getKey()), texts);
    });
    return new Column(
        node.get("name").asText(), place, node.get("converter").asText(), node.get("type").asText(), schemas);
  }

  @Override
  public Partition[] getPartitions() {
    return rows.partitions();
  }

  @Override
  public Iterator<InternalRow> compute(Partition partition, TaskContext context) {
    Iterator<InternalRow> all = rows.iterator(partition, context);
    ValueReader[] readers = new ValueReader[types.length];
    columns.forEach(column -> readers[column.place()] = ValueReader.of(column));
    GenericInternalRow decoded = new GenericInternalRow(types.length);
    return new AbstractIterator<InternalRow>() {
      @Override
      public boolean hasNext() {
        return all.hasNext();
      }

      @Override
      public InternalRow next() {
        InternalRow row = all.next();
        for (int place = 0; place < types.length; place++) {
          decoded.update(place, row.isNullAt(place) ? null : value(row, place));
        }
        return decoded;
      }

      private Object value(InternalRow row, int place) {
        if (readers[place] == null) {
          return row.get(place, types[place]);
        }
        try {
          return readers[place].read(row.getBinary(place));
        } catch (Unconverted error) {
          throw error;
        } catch (RuntimeException error) {
          throw new Unconverted("it cannot be read: " + error.getClass().getSimpleName(), error);
        }
      }
    };
  }
}
