"""What a leader does for stock Connect workers: pending starts, forwarded requests, fencing, hand-back."""
