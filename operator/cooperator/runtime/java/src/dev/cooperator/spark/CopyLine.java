package dev.cooperator.spark;

import java.io.Serializable;
import java.sql.SQLException;
import java.util.Arrays;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Lines of PostgreSQL's COPY (text format) in a buffer.
 *
 * <p>A row's columns are text as PostgreSQL reads it; here they get separators and escapes. Eight bytes are
 * looked at at once, since most have nothing to escape.
 */
final class CopyLine {
  /** The way in which a column is written: as it is, with escapes, or as the digits of bytes. */
  enum Form {
    PLAIN,
    TEXT,
    BYTES
  }

  record Column(String name, Form form) implements Serializable {}

  private static final String INVALID_CHARACTER = "22021";
  private static final byte[] NULL = {'\\', 'N'};
  private static final byte[] HEX = {
    '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'
  };
  private static final long LOWEST = 0x0101010101010101L;
  private static final long HIGHEST = 0x8080808080808080L;

  private final Column[] columns;
  private byte[] buffer;
  private int size;

  CopyLine(Column[] columns, int bytes) {
    this.columns = columns;
    this.buffer = new byte[2 * bytes];
  }

  byte[] bytes() {
    return buffer;
  }

  int size() {
    return size;
  }

  void clear() {
    size = 0;
  }

  /** Adds the line of a row. Throws what the server would answer to a value that it could not read. */
  void append(InternalRow row) throws SQLException {
    for (int index = 0; index < columns.length; index++) {
      if (row.isNullAt(index)) {
        append(NULL);
      } else if (columns[index].form() == Form.BYTES) {
        appendDigits(row.getBinary(index));
      } else {
        append(row.getUTF8String(index), columns[index]);
      }
      reserve(1);
      buffer[size++] = (byte) (index + 1 < columns.length ? '\t' : '\n');
    }
  }

  private void append(byte[] bytes) {
    reserve(bytes.length);
    System.arraycopy(bytes, 0, buffer, size, bytes.length);
    size += bytes.length;
  }

  private void append(UTF8String text, Column column) throws SQLException {
    int length = text.numBytes();
    reserve(length);
    Platform.copyMemory(
        text.getBaseObject(), text.getBaseOffset(), buffer, Platform.BYTE_ARRAY_OFFSET + size, length);
    if (column.form() == Form.TEXT) {
      long found = found(size, length);
      if ((found & NOT_ASCII) != 0 && !text.isValid()) {
        append(text.makeValid(), column);
        return;
      }
      if ((found & TO_ESCAPE) != 0) {
        escape(length, column);
        return;
      }
    }
    size += length;
  }

  private static final int NOT_ASCII = 1;
  private static final int TO_ESCAPE = 2;

  /** Returns what is among these bytes of the buffer. There may be nothing to escape all the same. */
  private int found(int start, int length) {
    long high = 0;
    long special = 0;
    int index = start;
    for (int end = start + length - 7; index < end; index += 8) {
      long eight = Platform.getLong(buffer, Platform.BYTE_ARRAY_OFFSET + index);
      long backslash = eight ^ (LOWEST * '\\');
      high |= eight;
      // The highest bit of a byte of each term: it is below 32, it is a backslash.
      special |= (eight - LOWEST * 32) & ~eight;
      special |= (backslash - LOWEST) & ~backslash;
    }
    for (; index < start + length; index++) {
      byte each = buffer[index];
      high |= each;
      special |= (each >= 0 && each < 32) || each == '\\' ? 0x80 : 0;
    }
    return ((high & HIGHEST) != 0 ? NOT_ASCII : 0) | ((special & HIGHEST) != 0 ? TO_ESCAPE : 0);
  }

  /** Escapes the bytes after the end of the buffer's content, and adds them to it. */
  private void escape(int length, Column column) throws SQLException {
    int more = 0;
    for (int index = size; index < size + length; index++) {
      if (buffer[index] == 0) {
        throw new SQLException(
            "column " + column.name()
                + " contains the character U+0000, which PostgreSQL does not support in text",
            INVALID_CHARACTER);
      }
      more += escaped(buffer[index]) == 0 ? 0 : 1;
    }
    reserve(length + more);
    int to = size + length + more;
    for (int from = size + length - 1; from >= size && to > from + 1; from--) {
      byte escaped = escaped(buffer[from]);
      buffer[--to] = escaped == 0 ? buffer[from] : escaped;
      if (escaped != 0) {
        buffer[--to] = '\\';
      }
    }
    size += length + more;
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

  private void appendDigits(byte[] bytes) {
    reserve(3 + 2 * bytes.length);
    buffer[size++] = '\\';
    buffer[size++] = '\\';
    buffer[size++] = 'x';
    for (byte each : bytes) {
      buffer[size++] = HEX[(each >> 4) & 15];
      buffer[size++] = HEX[each & 15];
    }
  }

  private void reserve(int bytes) {
    if (buffer.length - size < bytes) {
      buffer = Arrays.copyOf(buffer, Math.max(2 * buffer.length, size + bytes));
    }
  }
}
