"""``cooperator demo``: a real job that survives a kill, verified row by row."""
