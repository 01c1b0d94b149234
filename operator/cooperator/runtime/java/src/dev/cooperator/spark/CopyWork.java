package dev.cooperator.spark;

import java.io.Serializable;
import java.util.List;

/**
 * The part of a batch that one Spark task reads, copies and commits.
 *
 * @param moves the parameter of {@link CopyTarget}'s statements
 * @param before the statements that create what the rows are copied to
 * @param after the statements that move the rows from there into the table
 * @param table the table, which must not have changed
 */
record CopyWork(
    List<OffsetRange> ranges, String moves, String[] before, String copy, String[] after, Table table)
    implements Serializable {
  /** {@code query} returns the digest of its description (empty: it is not compared). */
  record Table(String name, String query, String digest) implements Serializable {}
}
