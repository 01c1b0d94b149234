"""Files below a directory as logs: the units of ``files-to-kafka``, their positions, and their batches.

A unit's files, in the order in which they were found, are a log of bytes. Its position is an offset of this
log, and the names of its files are records of ``<group>-files``.
"""
