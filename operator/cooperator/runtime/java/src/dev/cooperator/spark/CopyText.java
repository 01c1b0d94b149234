package dev.cooperator.spark;

import org.apache.spark.sql.api.java.UDF1;

/**
 * Escapes a value for PostgreSQL's COPY (text format): backslash, tab, newline and carriage return.
 *
 * <p>Values are bytes, so that text that is no UTF-8 reaches the database as it is, which refuses it. One
 * pass takes a tenth of the time of four nested {@code replace} of Spark.
 */
public final class CopyText implements UDF1<byte[], byte[]> {
  private static final long serialVersionUID = 1L;

  @Override
  public byte[] call(byte[] value) {
    int more = 0;
    for (int index = 0; value != null && index < value.length; index++) {
      more += escaped(value[index]) == 0 ? 0 : 1;
    }
    if (more == 0) {
      return value;
    }
    byte[] found = new byte[value.length + more];
    int at = 0;
    for (byte each : value) {
      byte escaped = escaped(each);
      if (escaped != 0) {
        found[at++] = '\\';
      }
      found[at++] = escaped == 0 ? each : escaped;
    }
    return found;
  }

  /** Returns what follows the backslash; 0: the byte stays as it is. */
  private static byte escaped(byte each) {
    return switch (each) {
      case '\\' -> '\\';
      case '\t' -> 't';
      case '\n' -> 'n';
      case '\r' -> 'r';
      default -> 0;
    };
  }
}
