"""Tasks as loops of Spark batch jobs over ranges of offsets, whose positions live with the sink.

Contents: planning the ranges of a batch (pure), the watcher of partitions' ends, the loop of a
task, and the Spark jobs that it runs; claims and positions of units. A connector supplies the transform and
the settings of its clients.
"""
