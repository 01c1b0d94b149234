package dev.cooperator.spark;

import static dev.cooperator.spark.ValueReader.require;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.avro.Schema;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Reads Avro in the format of Confluent's serializers: a zero, the schema's id, and the value by that schema.
 *
 * <p>Schemas are those whose values are of the column's type. Avro's own reader of primitive types reads them;
 * Spark's {@code from_avro} takes one schema, times of the day as numbers, and dates and decimals out of range.
 */
final class AvroValues implements ValueReader {
  private static final int HEAD = 5;

  private final Map<Integer, Read> reads = new HashMap<>();
  private BinaryDecoder decoder;

  /** Reads what has a type of its own. */
  private interface Read {
    Object next(BinaryDecoder decoder) throws IOException;
  }

  AvroValues(Map<Integer, List<String>> schemas, DataType type) {
    schemas.forEach((id, texts) -> reads.put(id, read(parsed(texts), type)));
  }

  private static Schema parsed(List<String> texts) {
    Schema.Parser parser = new Schema.Parser();
    Schema last = null;
    for (String text : texts) {
      last = parser.parse(text);
    }
    return last;
  }

  @Override
  public Object read(byte[] data) {
    require(data.length >= HEAD && data[0] == 0, "it does not begin with a zero byte and a schema id");
    int id = (data[1] & 0xff) << 24 | (data[2] & 0xff) << 16 | (data[3] & 0xff) << 8 | data[4] & 0xff;
    Read read = reads.get(id);
    require(read != null, "schema " + id + " is not one of the plan's");
    decoder = DecoderFactory.get().binaryDecoder(data, HEAD, data.length - HEAD, decoder);
    try {
      return read.next(decoder);
    } catch (IOException error) {
      throw new Unconverted("it does not fit schema " + id, error);
    }
  }

  private static Read read(Schema schema, DataType type) {
    String logical = schema.getProp("logicalType");
    Schema.Type kind = schema.getType();
    if (logical != null) {
      return logical(kind, logical, schema, type);
    }
    switch (kind) {
      case NULL:
        return expect(DataTypes.NullType, type, decoder -> null);
      case BOOLEAN:
        return expect(DataTypes.BooleanType, type, AvroValues::truth);
      case INT:
        return expect(DataTypes.IntegerType, type, AvroValues::integer);
      case LONG:
        return expect(DataTypes.LongType, type, BinaryDecoder::readLong);
      case FLOAT:
        return expect(DataTypes.FloatType, type, BinaryDecoder::readFloat);
      case DOUBLE:
        return expect(DataTypes.DoubleType, type, BinaryDecoder::readDouble);
      case STRING:
        return expect(DataTypes.StringType, type, AvroValues::text);
      case BYTES:
        return expect(DataTypes.BinaryType, type, AvroValues::bytes);
      case FIXED:
        return expect(DataTypes.BinaryType, type, fixed(schema.getFixedSize()));
      case ENUM:
        return expect(DataTypes.StringType, type, symbol(schema.getEnumSymbols()));
      case UNION:
        return union(schema.getTypes(), type);
      case ARRAY:
        require(type instanceof ArrayType, "an array is no " + type.sql());
        return array(read(schema.getElementType(), ((ArrayType) type).elementType()));
      case MAP:
        require(type instanceof MapType, "a map is no " + type.sql());
        expect(DataTypes.StringType, ((MapType) type).keyType(), null);
        return map(read(schema.getValueType(), ((MapType) type).valueType()));
      case RECORD:
        require(type instanceof StructType, "a record is no " + type.sql());
        return record(schema.getFields(), ((StructType) type).fields());
      default:
        throw new Unconverted("values of " + kind + " are not read here");
    }
  }

  /** Reads logical types that are read in the same way everywhere; others are left to Python. */
  private static Read logical(Schema.Type kind, String logical, Schema schema, DataType type) {
    switch (kind + " " + logical) {
      case "INT date":
        return expect(DataTypes.DateType, type, decoder -> ValueReader.day(integer(decoder)));
      case "LONG timestamp-millis":
        return expect(DataTypes.TimestampType, type, AvroValues::millis);
      case "LONG timestamp-micros":
        return expect(DataTypes.TimestampType, type, AvroValues::micros);
      case "LONG local-timestamp-millis":
        return expect(DataTypes.TimestampNTZType, type, AvroValues::millis);
      case "LONG local-timestamp-micros":
        return expect(DataTypes.TimestampNTZType, type, AvroValues::micros);
      case "BYTES decimal", "FIXED decimal":
        int scale = schema.getObjectProp("scale") == null ? 0 : (Integer) schema.getObjectProp("scale");
        DecimalType of = new DecimalType((Integer) schema.getObjectProp("precision"), scale);
        Read bytes = kind == Schema.Type.BYTES ? AvroValues::bytes : fixed(schema.getFixedSize());
        return expect(of, type, decoder -> ValueReader.decimal((byte[]) bytes.next(decoder), of));
      default:
        throw new Unconverted("values of the logical type " + logical + " are not read here");
    }
  }

  private static Read expect(DataType found, DataType type, Read read) {
    require(found.equals(type), found.sql() + " is no " + type.sql());
    return read;
  }

  /** Avro's reader takes each byte but 1 as false, fastavro each but 0 as true. */
  private static Object truth(BinaryDecoder decoder) throws IOException {
    byte[] found = new byte[1];
    decoder.readFixed(found);
    require(found[0] == 0 || found[0] == 1, "a boolean is neither 0 nor 1");
    return found[0] == 1;
  }

  /** Avro's reader of integers drops bits that are too high. */
  private static int integer(BinaryDecoder decoder) throws IOException {
    long found = decoder.readLong();
    require(found == (int) found, "an integer is out of range");
    return (int) found;
  }

  private static byte[] bytes(BinaryDecoder decoder) throws IOException {
    int size = integer(decoder);
    require(size >= 0 && size <= decoder.inputStream().available(), "it is cut off");
    byte[] found = new byte[size];
    decoder.readFixed(found);
    return found;
  }

  private static Read fixed(int size) {
    return decoder -> {
      byte[] found = new byte[size];
      decoder.readFixed(found);
      return found;
    };
  }

  private static UTF8String text(BinaryDecoder decoder) throws IOException {
    byte[] found = bytes(decoder);
    ValueReader.requireText(found, 0, found.length);
    return UTF8String.fromBytes(found);
  }

  private static Read symbol(List<String> symbols) {
    UTF8String[] texts = symbols.stream().map(UTF8String::fromString).toArray(UTF8String[]::new);
    return decoder -> {
      int place = integer(decoder);
      require(place >= 0 && place < texts.length, "an enum has no such symbol");
      return texts[place];
    };
  }

  private static Object millis(BinaryDecoder decoder) throws IOException {
    return ValueReader.micros(decoder.readLong());
  }

  private static Object micros(BinaryDecoder decoder) throws IOException {
    long found = decoder.readLong();
    ValueReader.micros(Math.floorDiv(found, 1_000L)); // Checks its range.
    return found;
  }

  private static Read union(List<Schema> branches, DataType type) {
    List<Read> reads = new ArrayList<>();
    for (Schema branch : branches) {
      boolean isNull = branch.getType() == Schema.Type.NULL;
      reads.add(isNull ? decoder -> null : read(branch, type));
    }
    return decoder -> {
      int branch = integer(decoder);
      require(branch >= 0 && branch < reads.size(), "a union has no such branch");
      return reads.get(branch).next(decoder);
    };
  }

  private static Read array(Read element) {
    return decoder -> {
      List<Object> found = new ArrayList<>();
      for (long count = decoder.readArrayStart(); count > 0; count = decoder.arrayNext()) {
        requireCount(count, decoder);
        for (long number = 0; number < count; number++) {
          found.add(element.next(decoder));
        }
      }
      return new GenericArrayData(found.toArray());
    };
  }

  private static Read map(Read value) {
    return decoder -> {
      Set<Object> keys = new HashSet<>();
      List<Object> inOrder = new ArrayList<>();
      List<Object> values = new ArrayList<>();
      for (long count = decoder.readMapStart(); count > 0; count = decoder.mapNext()) {
        requireCount(count, decoder);
        for (long number = 0; number < count; number++) {
          Object key = text(decoder);
          require(keys.add(key), "a map has a key twice");
          inOrder.add(key);
          values.add(value.next(decoder));
        }
      }
      return new ArrayBasedMapData(
          new GenericArrayData(inOrder.toArray()), new GenericArrayData(values.toArray()));
    };
  }

  /** Refuses blocks whose elements take no bytes, or are not there. */
  private static void requireCount(long count, BinaryDecoder decoder) throws IOException {
    require(count <= decoder.inputStream().available(), "a block has more elements than bytes");
  }

  private static Read record(List<Schema.Field> fields, StructField[] columns) {
    require(fields.size() == columns.length, "the fields differ");
    Read[] reads = new Read[columns.length];
    for (int place = 0; place < columns.length; place++) {
      require(fields.get(place).name().equals(columns[place].name()), "the fields differ");
      reads[place] = read(fields.get(place).schema(), columns[place].dataType());
    }
    return decoder -> {
      Object[] found = new Object[reads.length];
      for (int place = 0; place < reads.length; place++) {
        found[place] = reads[place].next(decoder);
      }
      return new GenericInternalRow(found);
    };
  }
}
