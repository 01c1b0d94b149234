"""Tables that are read by one loop of batches per task.

A unit is a table: ``table_log`` has its batches as ranges of offsets, ``arrivals`` finds new rows, ``units``
has the positions, ``batches`` reads and writes the rows in Spark's tasks, and ``task`` assembles the loop.
"""
