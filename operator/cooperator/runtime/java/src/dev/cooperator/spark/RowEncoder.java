package dev.cooperator.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.ByteArrayOutputStream;
import java.io.Serializable;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.Base64;
import java.util.List;

/**
 * Makes keys or values of rows, as Kafka Connect's converters do: JSON, Connect's envelope with
 * a schema, Avro of a registry, or text.
 */
final class RowEncoder {
  /**
   * The form of a key or a value.
   *
   * @param converter json, json-schema, avro or string
   * @param fields the indexes of columns
   * @param isAlone whether the value is that of the only column, and no struct
   * @param schema of json-schema
   * @param id that of the schema in the registry, of avro
   */
  record Form(String converter, int[] fields, boolean isAlone, String schema, int id)
      implements Serializable {
    /** Returns null if there is none. */
    static Form of(JsonNode node) {
      if (!node.isObject()) {
        return null;
      }
      int[] fields = new int[node.get("fields").size()];
      for (int index = 0; index < fields.length; index++) {
        fields[index] = node.get("fields").get(index).asInt();
      }
      return new Form(
          node.get("converter").asText(),
          fields,
          node.get("is_alone").asBoolean(),
          node.path("schema").asText(),
          node.path("id").asInt());
    }
  }

  /** A value that records cannot have. */
  static final class Refused extends RuntimeException {
    private static final long serialVersionUID = 1L;
    final transient TableColumn column;
    final String text;

    Refused(TableColumn column, String text, RuntimeException error) {
      super(error);
      this.column = column;
      this.text = text;
    }
  }

  private final Form form;
  /** A schema has one dimension, whatever an array of the column has. */
  private static final String NO_NESTED = "schemas have no arrays of arrays";

  private final List<TableColumn> columns;

  RowEncoder(Form form, List<TableColumn> columns) {
    this.form = form;
    this.columns = columns;
  }

  /** Returns the bytes for the texts of all columns. */
  byte[] encode(String[] texts) {
    if (form.converter().equals("avro")) {
      return avro(texts);
    }
    boolean isEnvelope = form.converter().equals("json-schema");
    if (form.converter().equals("string") && form.isAlone()) {
      return text(texts);
    }
    StringBuilder json = new StringBuilder();
    if (isEnvelope) {
      json.append("{\"schema\":").append(form.schema()).append(",\"payload\":");
    }
    if (form.isAlone()) {
      json(json, form.fields()[0], texts, isEnvelope);
    } else {
      json.append('{');
      for (int field : form.fields()) {
        if (field != form.fields()[0]) {
          json.append(',');
        }
        quote(json, columns.get(field).name());
        json.append(':');
        json(json, field, texts, isEnvelope);
      }
      json.append('}');
    }
    return TableText.utf8((isEnvelope ? json.append('}') : json).toString());
  }

  /** A text as it is, and anything else as its JSON without quotes. */
  private byte[] text(String[] texts) {
    int field = form.fields()[0];
    TableColumn column = columns.get(field);
    if (column.kind() == TableColumn.Kind.STRING && !column.isList()) {
      return TableText.utf8(texts[field]);
    }
    StringBuilder json = new StringBuilder();
    json(json, field, texts, false);
    int from = 0;
    int to = json.length();
    while (from < to && json.charAt(from) == '"') {
      from++;
    }
    while (to > from && json.charAt(to - 1) == '"') {
      to--;
    }
    return TableText.utf8(json.substring(from, to));
  }

  private void json(StringBuilder json, int field, String[] texts, boolean isPayload) {
    TableColumn column = columns.get(field);
    String text = texts[field];
    try {
      if (text == null) {
        json.append("null");
      } else if (column.isList()) {
        list(json, TableText.elements(text), column, isPayload);
      } else {
        one(json, text, column, isPayload);
      }
    } catch (RuntimeException error) {
      throw new Refused(column, text, error);
    }
  }

  private static void list(StringBuilder json, List<?> parts, TableColumn column, boolean isPayload) {
    String comma = "[";
    for (Object part : parts) {
      json.append(comma);
      comma = ",";
      if (part == null) {
        json.append("null");
      } else if (part instanceof List<?> inner) {
        if (isPayload) {
          throw new IllegalArgumentException(NO_NESTED);
        }
        list(json, inner, column, false);
      } else {
        one(json, (String) part, column, isPayload);
      }
    }
    json.append(parts.isEmpty() ? "[]" : "]");
  }

  private static void one(StringBuilder json, String text, TableColumn column, boolean isPayload) {
    switch (column.kind()) {
      case BOOL -> json.append(TableText.bool(text));
      case INT16, INT32, INT64 -> json.append(text);
      case FLOAT32, FLOAT64 -> {
        if (text.endsWith("N") || text.endsWith("y")) {
          quote(json, text); // NaN and Infinity
        } else {
          json.append(TableText.number(text));
        }
      }
      case BINARY -> quote(json, Base64.getEncoder().encodeToString(TableText.bytes(text)));
      case DATE -> {
        long days = TableText.days(text);
        if (isPayload) {
          json.append(days);
        } else {
          quote(json, text);
        }
      }
      case TIMESTAMP, TIMESTAMP_UTC -> {
        if (isPayload && column.hasMillis()) {
          json.append(TableText.micros(text) / 1_000);
        } else if (isPayload && column.kind() == TableColumn.Kind.TIMESTAMP) {
          json.append(TableText.micros(text));
        } else if (isPayload) {
          quote(json, TableText.iso(text, false) + "Z");
        } else {
          quote(json, TableText.iso(text, column.kind() == TableColumn.Kind.TIMESTAMP_UTC));
        }
      }
      case DECIMAL -> {
        byte[] unscaled = isPayload ? unscaled(text, column).toByteArray() : null;
        quote(json, isPayload ? Base64.getEncoder().encodeToString(unscaled) : text);
      }
      case STRING -> quote(json, text);
    }
  }

  private static BigInteger unscaled(String text, TableColumn column) {
    try {
      return new BigDecimal(text).setScale(column.scale()).unscaledValue();
    } catch (NumberFormatException error) {
      throw new IllegalArgumentException("schemas have no such number");
    }
  }

  /** Appends a JSON string as Python's json writes it. */
  static void quote(StringBuilder json, String text) {
    json.append('"');
    for (int index = 0; index < text.length(); index++) {
      char letter = text.charAt(index);
      switch (letter) {
        case '"' -> json.append("\\\"");
        case '\\' -> json.append("\\\\");
        case '\n' -> json.append("\\n");
        case '\r' -> json.append("\\r");
        case '\t' -> json.append("\\t");
        case '\b' -> json.append("\\b");
        case '\f' -> json.append("\\f");
        default -> {
          if (letter < 0x20) {
            json.append(String.format("\\u%04x", (int) letter));
          } else {
            json.append(letter);
          }
        }
      }
    }
    json.append('"');
  }

  private byte[] avro(String[] texts) {
    AvroOut out = new AvroOut();
    out.write(0);
    for (int shift = 24; shift >= 0; shift -= 8) {
      out.write(form.id() >>> shift);
    }
    for (int field : form.fields()) {
      TableColumn column = columns.get(field);
      String text = texts[field];
      try {
        if (!form.isAlone()) {
          out.number(text == null ? 0 : 1);
        }
        if (text != null && column.isList()) {
          out.list(TableText.elements(text), column);
        } else if (text != null) {
          out.one(text, column);
        }
      } catch (RuntimeException error) {
        throw new Refused(column, text, error);
      }
    }
    return out.toByteArray();
  }

  /** Avro's binary encoding, of the types of {@code avro_schema} in {@code connectors/registry.py}. */
  private static final class AvroOut extends ByteArrayOutputStream {
    void number(long value) {
      long rest = (value << 1) ^ (value >> 63);
      for (; (rest & ~0x7FL) != 0; rest >>>= 7) {
        write((int) (rest & 0x7F) | 0x80);
      }
      write((int) rest);
    }

    void bytes(byte[] value) {
      number(value.length);
      writeBytes(value);
    }

    void little(long bits, int size) {
      for (int index = 0; index < size; index++) {
        write((int) (bits >>> 8 * index));
      }
    }

    void list(List<Object> parts, TableColumn column) {
      if (!parts.isEmpty()) {
        number(parts.size());
      }
      for (Object part : parts) {
        if (part instanceof List) {
          throw new IllegalArgumentException(NO_NESTED);
        }
        number(part == null ? 0 : 1);
        if (part != null) {
          one((String) part, column);
        }
      }
      number(0);
    }

    void one(String text, TableColumn column) {
      switch (column.kind()) {
        case BOOL -> write(TableText.bool(text) ? 1 : 0);
        case INT16, INT32, INT64 -> number(Long.parseLong(text));
        case FLOAT32 -> little(Float.floatToRawIntBits(Float.parseFloat(text)), 4);
        case FLOAT64 -> little(Double.doubleToRawLongBits(Double.parseDouble(text)), 8);
        case BINARY -> bytes(TableText.bytes(text));
        case DATE -> number(TableText.days(text));
        case TIMESTAMP, TIMESTAMP_UTC -> number(TableText.micros(text) / (column.hasMillis() ? 1_000 : 1));
        case DECIMAL -> bytes(padded(unscaled(text, column)));
        case STRING -> bytes(TableText.utf8(text));
      }
    }

    /** The bytes of a number, with a sign in any case, as fastavro writes them. */
    private static byte[] padded(BigInteger number) {
      byte[] found = number.toByteArray();
      int size = (number.abs().bitLength() + 8) / 8;
      if (size == found.length) {
        return found;
      }
      byte[] padded = new byte[size];
      java.util.Arrays.fill(padded, (byte) (number.signum() < 0 ? -1 : 0));
      System.arraycopy(found, 0, padded, size - found.length, found.length);
      return padded;
    }
  }
}
