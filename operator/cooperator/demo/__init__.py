"""``cooperator demo``: a real job that survives a kill, checked row by row."""
