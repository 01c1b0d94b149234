package dev.cooperator.spark;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.NullType;

/**
 * Reads a key or a value as Spark holds it, exactly as Python's readers do ({@code registry.py}, {@code
 * decoding.py}), or throws {@link Unconverted}. It is for one thread.
 */
interface ValueReader {
  /** Times as Python's datetime has them: of the years 1 to 9999. */
  long FIRST_MS = -62_135_596_800_000L;

  long LAST_MS = 253_402_300_799_999L;
  long FIRST_DAY = -719_162;
  long LAST_DAY = 2_932_896;

  /** Reads the bytes of a record, which are not null. */
  Object read(byte[] data);

  /** The reader of a column that has had nulls only. */
  static ValueReader ofNulls() {
    return data -> {
      throw new Unconverted("it has no type yet");
    };
  }

  /** Creates a reader, or throws {@link Unconverted} for a converter or a type that it cannot read. */
  static ValueReader of(DecodedRows.Column column) {
    DataType type = DataType.fromJson(column.type());
    if (type instanceof NullType) {
      return ofNulls();
    }
    return switch (column.converter()) {
      case "avro" -> new AvroValues(column.schemas(), type);
      case "json-schema" -> new EnvelopeValues(type);
      default -> throw new Unconverted("the converter " + column.converter() + " is no reader's");
    };
  }

  static void require(boolean isTrue, String problem) {
    if (!isTrue) {
      throw new Unconverted(problem);
    }
  }

  static int day(long day) {
    require(day >= FIRST_DAY && day <= LAST_DAY, "a date is out of range");
    return (int) day;
  }

  static long micros(long ms) {
    require(ms >= FIRST_MS && ms <= LAST_MS, "a time is out of range");
    return ms * 1_000;
  }

  static Decimal decimal(byte[] unscaled, DecimalType type) {
    require(unscaled.length > 0, "a decimal has no bytes");
    BigDecimal found = new BigDecimal(new BigInteger(unscaled), type.scale());
    require(found.precision() <= type.precision(), "a decimal has too many digits");
    return Decimal.apply(found, type.precision(), type.scale());
  }

  /** Whether there are only characters of ASCII besides U+0000. */
  static boolean isPlain(byte[] data, int from, int until) {
    int at = from;
    while (at < until && data[at] > 0) {
      at++;
    }
    return at == until;
  }

  /** Requires valid UTF-8, which neither Avro's nor Jackson's reader checks. */
  static void requireText(byte[] data, int from, int until) {
    if (isPlain(data, from, until)) {
      return;
    }
    try {
      StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(data, from, until - from));
    } catch (CharacterCodingException error) {
      throw new Unconverted("text is not UTF-8", error);
    }
  }
}
