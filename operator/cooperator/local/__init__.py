"""Cooperator on one machine, without Kubernetes.

This package holds the embedded Kafka broker, members as process groups in place of pods, manifests as files
in place of an API server, the daemon that reconciles them, and the users' commands. ``pool`` and ``leader``
make the decisions; this package only observes and acts. It may import all packages but ``cli``.
"""
