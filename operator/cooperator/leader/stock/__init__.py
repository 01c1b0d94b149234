"""Leading stock Connect workers: pending starts, forwarded requests, fencing, hand-back."""
