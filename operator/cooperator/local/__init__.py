"""Cooperator on one machine, without Kubernetes.

What may live here: the embedded Kafka broker, members as process groups in place of pods, manifests as files
in place of an API server, the daemon that works towards them, the commands of users, and the main job
(``demo*``). Decisions come from ``pool`` and ``leader``; this room only observes and acts. May import all
rooms but ``cli``.
"""

from cooperator.local.broker import BrokerError, EmbeddedBroker

__all__ = ["BrokerError", "EmbeddedBroker"]
