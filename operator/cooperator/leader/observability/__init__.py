"""What a leader shows: status, causes and durations of rebalances, metrics, and a group seen from outside."""
