"""Tables that are read by one loop of batches per task.

A unit is a table: ``table_log`` has its batches as ranges of offsets, ``arrivals`` finds new rows,
``batches`` reads and writes them in Spark's tasks, ``task`` assembles the loop.
"""
