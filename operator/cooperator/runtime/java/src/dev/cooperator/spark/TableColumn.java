package dev.cooperator.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/**
 * A column of a table, whose values are read as the database's text. {@code precision} and {@code scale} are
 * those of decimals; the precision of times is the digits of a second's fraction, 3 or 6.
 */
record TableColumn(String name, Kind kind, boolean isList, int precision, int scale) implements Serializable {
  private static final int MILLIS = 3;

  /** The kinds of values, as {@code connectors/postgres_columns.py} has them. */
  enum Kind {
    BOOL,
    INT16,
    INT32,
    INT64,
    FLOAT32,
    FLOAT64,
    BINARY,
    DATE,
    TIMESTAMP,
    TIMESTAMP_UTC,
    DECIMAL,
    STRING
  }

  /** Reads {@code [name, kind, isList, precision, scale]}. */
  static TableColumn of(JsonNode node) {
    return new TableColumn(
        node.get(0).asText(),
        Kind.valueOf(node.get(1).asText()),
        node.get(2).asBoolean(),
        node.get(3).asInt(),
        node.get(4).asInt());
  }

  static List<TableColumn> list(JsonNode nodes) {
    List<TableColumn> found = new ArrayList<>();
    nodes.forEach(node -> found.add(of(node)));
    return found;
  }

  /** Whether its times are milliseconds, which schemas say in other words than microseconds. */
  boolean hasMillis() {
    return precision <= MILLIS;
  }

  DataType type() {
    DataType one =
        switch (kind) {
          case BOOL -> DataTypes.BooleanType;
          case INT16 -> DataTypes.ShortType;
          case INT32 -> DataTypes.IntegerType;
          case INT64 -> DataTypes.LongType;
          case FLOAT32 -> DataTypes.FloatType;
          case FLOAT64 -> DataTypes.DoubleType;
          case BINARY -> DataTypes.BinaryType;
          case DATE -> DataTypes.DateType;
          case TIMESTAMP, TIMESTAMP_UTC -> DataTypes.TimestampType;
          case DECIMAL -> DataTypes.createDecimalType(precision, scale);
          case STRING -> DataTypes.StringType;
        };
    return isList ? DataTypes.createArrayType(one) : one;
  }
}
