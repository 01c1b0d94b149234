"""Tables as logs of rows, for a loop of batches per task; no class uses them yet (decision 074).

A unit is a table: ``table_log`` has its batches as ranges of offsets, ``arrivals`` finds new rows, ``units``
has the positions.
"""
