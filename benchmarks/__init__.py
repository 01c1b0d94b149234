"""Speed, memory and scale, measured beside the peer in the same run: ``python -m benchmarks.NAME``."""
