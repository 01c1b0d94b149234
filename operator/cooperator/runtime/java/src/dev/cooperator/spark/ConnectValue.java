package dev.cooperator.spark;

import static dev.cooperator.spark.ValueReader.require;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.time.DateTimeException;
import java.time.Instant;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
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
 * Reads values of one schema of Kafka Connect from JSON, as strictly as {@code decoding.py}.
 *
 * <p>What that reader takes and this one does not know in the same way (a list of characters, a map as pairs, a
 * member twice) throws {@link Unconverted}.
 */
final class ConnectValue {
  private static final String CONNECT = "org.apache.kafka.connect.data.";
  private static final Set<String> LOGICAL = Set.of("Decimal", "Timestamp", "Date", "Time");

  /** Debezium's types of times, since Connect's have milliseconds. */
  private static final String MICROS = "io.debezium.time.MicroTimestamp";

  private static final String ZONED = "io.debezium.time.ZonedTimestamp";
  private static final Set<String> WITH_MICROS = Set.of(MICROS, ZONED);
  private static final int DECIMAL_DIGITS = 38;
  private static final int LONGEST_NUMBER = 1_000;
  private static final long DAY_MS = 86_400_000;
  private static final long LAST_MICROS = ValueReader.LAST_MS * 1_000 + 999;
  private static final long EXACT_DOUBLE = 1L << 53;
  private static final long EXACT_FLOAT = 1L << 24;

  /** Reads a value that is not null; the parser is at its first token, and at its last one afterwards. */
  private interface Present {
    Object read(JsonParser parser) throws IOException;
  }

  private final Present present;
  private final boolean isOptional;
  private final JsonNode byDefault;

  private ConnectValue(JsonNode schema, Present present) {
    JsonNode optional = schema.path("optional");
    require(optional.isMissingNode() || optional.isBoolean(), "optional is no boolean");
    this.present = present;
    this.isOptional = optional.asBoolean();
    this.byDefault = schema.get("default");
  }

  /** Creates the reader, or throws {@link Unconverted} if the schema's values are not of this type. */
  static ConnectValue of(JsonNode schema, DataType type) {
    return new ConnectValue(schema, present(schema, type));
  }

  Object read(JsonParser parser) throws IOException {
    return parser.currentToken() == JsonToken.VALUE_NULL ? ofNull() : present.read(parser);
  }

  /** Returns the value of a member that is null, or is not there. */
  private Object ofNull() throws IOException {
    if (byDefault == null) {
      require(isOptional, "a member is null, which its schema does not allow");
      return null;
    }
    require(!byDefault.isNull(), "a default is null");
    try (JsonParser parser = byDefault.traverse()) {
      parser.nextToken();
      return present.read(parser);
    }
  }

  private static Present present(JsonNode schema, DataType type) {
    JsonNode kind = schema.path("type");
    require(kind.isTextual(), "a schema has no type");
    JsonNode name = schema.path("name");
    require(name.isMissingNode() || name.isTextual(), "a schema's name is no text");
    switch (kind.asText()) {
      case "struct":
        require(type instanceof StructType, "a struct is no " + type.sql());
        return struct(schema.path("fields"), ((StructType) type).fields());
      case "array":
        require(type instanceof ArrayType, "an array is no " + type.sql());
        return array(of(schema.path("items"), ((ArrayType) type).elementType()));
      case "map":
        require(type instanceof MapType, "a map is no " + type.sql());
        MapType map = (MapType) type;
        of(schema.path("keys"), map.keyType());
        require(map.keyType().equals(DataTypes.StringType), "keys are no text");
        require("string".equals(schema.path("keys").path("type").asText()), "keys are no text");
        return map(of(schema.path("values"), map.valueType()));
      default:
        String full = name.asText("");
        String logical = full.startsWith(CONNECT) ? full.substring(CONNECT.length()) : full;
        return LOGICAL.contains(logical) || WITH_MICROS.contains(full)
            ? logical(kind.asText(), logical, schema, type)
            : primitive(kind.asText(), type);
    }
  }

  private static Present primitive(String kind, DataType type) {
    switch (kind) {
      case "boolean":
        return expect(DataTypes.BooleanType, type, ConnectValue::truth);
      case "int8":
        return expect(DataTypes.ByteType, type, p -> (byte) integer(p, Byte.MIN_VALUE, Byte.MAX_VALUE));
      case "int16":
        return expect(DataTypes.ShortType, type, p -> (short) integer(p, Short.MIN_VALUE, Short.MAX_VALUE));
      case "int32":
        return expect(
            DataTypes.IntegerType, type, p -> (int) integer(p, Integer.MIN_VALUE, Integer.MAX_VALUE));
      case "int64":
        return expect(DataTypes.LongType, type, p -> integer(p, Long.MIN_VALUE, Long.MAX_VALUE));
      case "float":
        return expect(DataTypes.FloatType, type, ConnectValue::single);
      case "double":
        return expect(DataTypes.DoubleType, type, p -> real(p, EXACT_DOUBLE));
      case "string":
        return expect(DataTypes.StringType, type, p -> UTF8String.fromString(text(p)));
      case "bytes":
        return expect(DataTypes.BinaryType, type, ConnectValue::bytes);
      default:
        throw new Unconverted("values of the type " + kind + " are not read here");
    }
  }

  private static Present logical(String kind, String logical, JsonNode schema, DataType type) {
    switch (kind + " " + logical) {
      case "bytes Decimal":
        DecimalType of = new DecimalType(DECIMAL_DIGITS, scale(schema.path("parameters").path("scale")));
        return expect(of, type, parser -> ValueReader.decimal(bytes(parser), of));
      case "int64 Timestamp":
        return expect(DataTypes.TimestampType, type, p -> ValueReader.micros(ms(p)));
      case "int64 " + MICROS:
        return expect(
            DataTypes.TimestampType, type, p -> integer(p, ValueReader.FIRST_MS * 1_000, LAST_MICROS));
      case "string " + ZONED:
        return expect(DataTypes.TimestampType, type, ConnectValue::zoned);
      case "int32 Date":
        return expect(
            DataTypes.DateType,
            type,
            p -> ValueReader.day(integer(p, ValueReader.FIRST_DAY, ValueReader.LAST_DAY)));
      case "int32 Time":
        return expect(DataTypes.StringType, type, p -> timeOfDay(ms(p)));
      default:
        throw new Unconverted("a " + logical + " of the type " + kind + " is not read here");
    }
  }

  private static Present expect(DataType found, DataType type, Present present) {
    require(found.equals(type), found.sql() + " is no " + type.sql());
    return present;
  }

  private static int scale(JsonNode node) {
    String text = node.asText("");
    require(text.matches("[0-9]{1,2}"), "a decimal's scale is no number");
    int scale = Integer.parseInt(text);
    require(scale <= DECIMAL_DIGITS, "a decimal's scale is too large");
    return scale;
  }

  private static Object truth(JsonParser parser) {
    JsonToken token = parser.currentToken();
    require(token == JsonToken.VALUE_TRUE || token == JsonToken.VALUE_FALSE, "a boolean is none");
    return token == JsonToken.VALUE_TRUE;
  }

  private static long integer(JsonParser parser, long least, long greatest) throws IOException {
    require(parser.currentToken() == JsonToken.VALUE_NUMBER_INT, "an integer is none");
    long found = parser.getLongValue(); // Throws if it is out of range.
    require(found >= least && found <= greatest, "an integer is out of range");
    return found;
  }

  private static long ms(JsonParser parser) throws IOException {
    return integer(parser, ValueReader.FIRST_MS, ValueReader.LAST_MS);
  }

  private static long zoned(JsonParser parser) throws IOException {
    Instant at;
    try {
      at = OffsetDateTime.parse(text(parser)).toInstant();
    } catch (DateTimeException error) {
      throw new Unconverted("a time with a zone is none");
    }
    require(at.getNano() % 1_000 == 0, "a time has more digits than microseconds");
    return ValueReader.micros(at.getEpochSecond() * 1_000) + at.getNano() / 1_000;
  }

  /** Arrow takes integers as numbers only if they are exact. */
  private static double real(JsonParser parser, long exact) throws IOException {
    if (parser.currentToken() == JsonToken.VALUE_NUMBER_INT) {
      return integer(parser, -exact, exact);
    }
    require(parser.currentToken() == JsonToken.VALUE_NUMBER_FLOAT, "a number is none");
    double found = parser.getDoubleValue();
    require(Double.isFinite(found), "a number is out of range");
    return found;
  }

  private static Object single(JsonParser parser) throws IOException {
    float found = (float) real(parser, EXACT_FLOAT);
    require(Float.isFinite(found), "a number is out of range");
    return found;
  }

  private static String text(JsonParser parser) throws IOException {
    require(parser.currentToken() == JsonToken.VALUE_STRING, "a text is none");
    return whole(parser.getText());
  }

  /** Refuses halves of surrogate pairs, which JSON can have and UTF-8 cannot. */
  private static String whole(String text) {
    for (int at = 0; at < text.length(); at++) {
      if (Character.isSurrogate(text.charAt(at))) {
        require(
            Character.isHighSurrogate(text.charAt(at))
                && at + 1 < text.length()
                && Character.isLowSurrogate(text.charAt(at + 1)),
            "a text has half a character");
        at++;
      }
    }
    return text;
  }

  private static byte[] bytes(JsonParser parser) throws IOException {
    String text = text(parser);
    byte[] found = Base64.getDecoder().decode(text); // Throws; it takes text without its padding.
    require(Base64.getEncoder().encodeToString(found).equals(text), "bytes are not in base64");
    return found;
  }

  private static UTF8String timeOfDay(long ms) {
    LocalTime time = LocalTime.ofNanoOfDay(Math.floorMod(ms, DAY_MS) * 1_000_000);
    String text = DateTimeFormatter.ofPattern("HH:mm:ss").format(time);
    int rest = time.getNano() / 1_000;
    return UTF8String.fromString(rest == 0 ? text : text + String.format(".%06d", rest));
  }

  private static Present struct(JsonNode fields, StructField[] columns) {
    require(fields.isArray() && fields.size() == columns.length, "the fields differ");
    ConnectValue[] readers = new ConnectValue[columns.length];
    Map<String, Integer> places = new HashMap<>();
    for (int place = 0; place < columns.length; place++) {
      String name = columns[place].name();
      JsonNode field = fields.get(place);
      require(field.path("field").isTextual() && field.get("field").asText().equals(name), "the fields differ");
      require(places.put(name, place) == null, "a field is there twice");
      readers[place] = of(field, columns[place].dataType());
    }
    return parser -> {
      require(parser.currentToken() == JsonToken.START_OBJECT, "a struct is none");
      Object[] found = new Object[readers.length];
      boolean[] isThere = new boolean[readers.length];
      for (String name = parser.nextFieldName(); name != null; name = parser.nextFieldName()) {
        parser.nextToken();
        Integer place = places.get(name);
        if (place == null) {
          skip(parser);
          continue;
        }
        require(!isThere[place], "a member is there twice");
        isThere[place] = true;
        found[place] = readers[place].read(parser);
      }
      require(parser.currentToken() == JsonToken.END_OBJECT, "a struct has no end");
      for (int place = 0; place < readers.length; place++) {
        if (!isThere[place]) {
          found[place] = readers[place].ofNull();
        }
      }
      return new GenericInternalRow(found);
    };
  }

  /** Skips a value. Python refuses numbers of thousands of digits, so that these are refused, too. */
  private static void skip(JsonParser parser) throws IOException {
    int depth = 0;
    do {
      JsonToken token = parser.currentToken();
      require(token != null, "it is cut off");
      if (token.isNumeric()) {
        require(parser.getTextLength() <= LONGEST_NUMBER, "a number has too many digits");
      }
      depth += token.isStructStart() ? 1 : token.isStructEnd() ? -1 : 0;
      if (depth > 0) {
        parser.nextToken();
      }
    } while (depth > 0);
  }

  private static Present array(ConnectValue element) {
    return parser -> {
      require(parser.currentToken() == JsonToken.START_ARRAY, "an array is none");
      List<Object> found = new ArrayList<>();
      for (JsonToken token = parser.nextToken(); token != JsonToken.END_ARRAY; token = parser.nextToken()) {
        require(token != null, "it is cut off");
        found.add(element.read(parser));
      }
      return new GenericArrayData(found.toArray());
    };
  }

  private static Present map(ConnectValue value) {
    return parser -> {
      require(parser.currentToken() == JsonToken.START_OBJECT, "a map is no object");
      Set<String> keys = new HashSet<>();
      List<Object> inOrder = new ArrayList<>();
      List<Object> values = new ArrayList<>();
      for (String name = parser.nextFieldName(); name != null; name = parser.nextFieldName()) {
        require(keys.add(name), "a map has a key twice");
        inOrder.add(UTF8String.fromString(whole(name)));
        parser.nextToken();
        values.add(value.read(parser));
      }
      require(parser.currentToken() == JsonToken.END_OBJECT, "a map has no end");
      return new ArrayBasedMapData(
          new GenericArrayData(inOrder.toArray()), new GenericArrayData(values.toArray()));
    };
  }
}
