"""Tests on real Kubernetes nodes."""
