"""Cooperator on Kubernetes: Workers and Connectors of an API server, their members as pods.

What may live here: kopf's wiring (``main``), the store of what its watches have seen, one reconcile per
Worker, pods and other children as pure manifests, pods and nodes in the pool's terms, the client for what
kopf does not do, the Lease. Decisions come from ``pool`` and ``leader``. Only this room imports kopf and the
Kubernetes client. May import all rooms but ``local``, ``agent`` and ``cli``.
"""
