package dev.cooperator.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;

/**
 * The records of a file that begin at the byte {@code from} or later, and before {@code to}.
 *
 * <p>The end of the last piece is one more than {@code size}, so that also an empty file has one. {@code path} is
 * below the source's directory. A file that {@code isWhole} has one piece.
 */
record FilePiece(String path, long from, long to, long size, long modifiedMs, boolean isWhole)
    implements Serializable {

  /** Reads {@code [path, from, to, size, modifiedMs, isWhole]}. */
  static FilePiece of(JsonNode node) {
    return new FilePiece(
        node.get(0).asText(),
        node.get(1).asLong(),
        node.get(2).asLong(),
        node.get(3).asLong(),
        node.get(4).asLong(),
        node.get(5).asBoolean());
  }
}
