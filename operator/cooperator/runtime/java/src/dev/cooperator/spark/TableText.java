package dev.cooperator.spark;

import java.io.ByteArrayOutputStream;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.time.DateTimeException;
import java.time.LocalDate;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.types.UTF8String;

/** Reads values of PostgreSQL as its text output has them, with DateStyle ISO and the time zone UTC. */
final class TableText {
  private static final long DAY_US = 86_400_000_000L;

  private TableText() {}

  /** Returns a value as Spark's rows have it. */
  static Object internal(String text, TableColumn column) {
    if (!column.isList()) {
      return one(text, column);
    }
    List<Object> parts = elements(text);
    Object[] found = new Object[parts.size()];
    for (int index = 0; index < found.length; index++) {
      Object part = parts.get(index);
      if (part instanceof List) {
        throw new IllegalArgumentException("arrays of arrays are no arrays of Spark");
      }
      found[index] = part == null ? null : one((String) part, column);
    }
    return new GenericArrayData(found);
  }

  private static Object one(String text, TableColumn column) {
    return switch (column.kind()) {
      case BOOL -> bool(text);
      case INT16 -> Short.parseShort(text);
      case INT32 -> Integer.parseInt(text);
      case INT64 -> Long.parseLong(text);
      case FLOAT32 -> Float.parseFloat(text);
      case FLOAT64 -> Double.parseDouble(text);
      case BINARY -> bytes(text);
      case DATE -> Math.toIntExact(days(text));
      case TIMESTAMP, TIMESTAMP_UTC -> micros(text);
      case DECIMAL -> Decimal.apply(
          new scala.math.BigDecimal(new BigDecimal(text)), column.precision(), column.scale());
      case STRING -> UTF8String.fromString(text);
    };
  }

  static boolean bool(String text) {
    return text.startsWith("t");
  }

  /** Returns the days since 1970-01-01. */
  static long days(String text) {
    return day(text).toEpochDay();
  }

  private static LocalDate day(String text) {
    try {
      // Years with more than four digits, years before 1, and infinity have other forms.
      return LocalDate.parse(text);
    } catch (DateTimeException error) {
      throw new IllegalArgumentException("use dates of the years 1 to 9999");
    }
  }

  /** Returns the microseconds since 1970-01-01T00:00:00Z. */
  static long micros(String text) {
    int space = text.indexOf(' ');
    String rest = space < 0 ? "" : text.substring(space + 1);
    if (rest.endsWith("+00")) {
      rest = rest.substring(0, rest.length() - 3);
    }
    long day = day(space < 0 ? text : text.substring(0, space)).toEpochDay();
    try {
      return day * DAY_US + LocalTime.parse(rest).toNanoOfDay() / 1000;
    } catch (DateTimeException error) {
      throw new IllegalArgumentException("use times of the years 1 to 9999");
    }
  }

  /** Returns a time as Python's isoformat has it. */
  static String iso(String text, boolean isZoned) {
    long micros = micros(text);
    long seconds = Math.floorDiv(micros, 1_000_000L);
    java.time.LocalDateTime at = java.time.LocalDateTime.ofEpochSecond(seconds, 0, ZoneOffset.UTC);
    StringBuilder found = new StringBuilder(32);
    found.append(at.toLocalDate()).append('T');
    pair(found, at.getHour()).append(':');
    pair(found, at.getMinute()).append(':');
    pair(found, at.getSecond());
    long fraction = Math.floorMod(micros, 1_000_000L);
    if (fraction != 0) {
      found.append('.').append(Long.toString(1_000_000L + fraction), 1, 7);
    }
    return found.append(isZoned ? "+00:00" : "").toString();
  }

  private static StringBuilder pair(StringBuilder into, int number) {
    return into.append((char) ('0' + number / 10)).append((char) ('0' + number % 10));
  }

  /** Reads {@code bytea} in the form {@code hex}, or {@code escape}. */
  static byte[] bytes(String text) {
    if (text.startsWith("\\x")) {
      return HexFormat.of().parseHex(text, 2, text.length());
    }
    ByteArrayOutputStream found = new ByteArrayOutputStream(text.length());
    for (int index = 0; index < text.length(); index++) {
      char letter = text.charAt(index);
      if (letter != '\\') {
        found.write(letter);
      } else if (text.charAt(index + 1) == '\\') {
        found.write('\\');
        index++;
      } else {
        found.write(Integer.parseInt(text, index + 1, index + 4, 8));
        index += 3;
      }
    }
    return found.toByteArray();
  }

  /**
   * Returns a number as Python's repr writes it. The digits are the fewest that mean it, as the database has
   * chosen them.
   */
  static String number(String text) {
    BigDecimal exact = new BigDecimal(text);
    String sign = text.startsWith("-") ? "-" : "";
    if (exact.signum() == 0) {
      return sign + "0.0";
    }
    BigDecimal plain = exact.stripTrailingZeros();
    String digits = plain.unscaledValue().abs().toString();
    // The number is 0.DIGITS times ten to this power.
    int point = digits.length() - plain.scale();
    if (point > -4 && point <= 16) {
      if (point <= 0) {
        return sign + "0." + "0".repeat(-point) + digits;
      }
      if (point >= digits.length()) {
        return sign + digits + "0".repeat(point - digits.length()) + ".0";
      }
      return sign + digits.substring(0, point) + "." + digits.substring(point);
    }
    int exponent = point - 1;
    String rest = digits.length() > 1 ? "." + digits.substring(1) : "";
    String power = Integer.toString(Math.abs(exponent));
    return sign
        + digits.charAt(0)
        + rest
        + (exponent < 0 ? "e-" : "e+")
        + (power.length() < 2 ? "0" + power : power);
  }

  /** Returns the elements of an array: texts, nulls, and lists of these. */
  static List<Object> elements(String text) {
    int begin = text.indexOf('{');
    if (begin < 0) {
      throw new IllegalArgumentException("it is no array");
    }
    return new ArrayText(text, begin + 1).list();
  }

  /** Bytes of UTF-8. */
  static byte[] utf8(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  /** Reads the text output of an array; bounds before it are skipped. */
  private static final class ArrayText {
    private final String text;
    private int at;

    ArrayText(String text, int at) {
      this.text = text;
      this.at = at;
    }

    List<Object> list() {
      List<Object> found = new ArrayList<>();
      while (true) {
        switch (text.charAt(at)) {
          case '}' -> {
            at++;
            return found;
          }
          case ',' -> at++;
          case '{' -> {
            at++;
            found.add(list());
          }
          case '"' -> {
            at++;
            found.add(quoted());
          }
          default -> {
            String plain = plain();
            found.add(plain.equalsIgnoreCase("NULL") ? null : plain);
          }
        }
      }
    }

    private String quoted() {
      StringBuilder found = new StringBuilder();
      for (; text.charAt(at) != '"'; at++) {
        if (text.charAt(at) == '\\') {
          at++;
        }
        found.append(text.charAt(at));
      }
      at++;
      return found.toString();
    }

    private String plain() {
      int begin = at;
      while (text.charAt(at) != ',' && text.charAt(at) != '}') {
        at++;
      }
      return text.substring(begin, at);
    }
  }
}
