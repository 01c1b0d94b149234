package dev.cooperator.spark;

import java.io.Serializable;

/**
 * Where the rows of a batch go.
 *
 * @param check returns, for the moves of a slot, a row for each: its {@code problem} (null: there is none),
 *     and whether it was {@code done} before. The positions stay locked
 * @param advance moves the positions
 */
record CopyTarget(
    SlotConnections.Server server, String idPrefix, CopyLine.Column[] columns, String check, String advance)
    implements Serializable {}
