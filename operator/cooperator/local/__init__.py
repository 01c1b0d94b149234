"""Cooperator on one machine, without Kubernetes.

What may live here: the embedded Kafka broker, members as process groups in place of pods, manifests read
from files, and the daemon that keeps them together. Decisions come from ``pool`` and ``leader``; this room
only observes and acts. May import ``pool``, ``crd``, ``leader``, ``agent``, ``artifacts`` and ``logs``.
"""

from cooperator.local.broker import BrokerError, EmbeddedBroker

__all__ = ["BrokerError", "EmbeddedBroker"]
