"""The Kubernetes API as the operator uses it: requests, rights, the operator's Lease, events, watch
health."""
