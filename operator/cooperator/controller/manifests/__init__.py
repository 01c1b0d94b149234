"""Manifests that the operator applies: pods of both runtimes, their surroundings, and pinned settings."""
