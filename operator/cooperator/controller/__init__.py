"""Cooperator on Kubernetes: Workers and Connectors come from an API server, members run as pods.

This package holds kopf's wiring (``main``), the store of what its watches have seen, pods as the platform of
``host.worker_loop`` (``platform``), pods and other children as pure manifests, pods and nodes in the pool's
terms, the client for what kopf does not do, and the Lease. Decisions come from ``pool`` and ``leader``. Only
this package imports kopf and the Kubernetes client. It may import all packages but ``local``, ``agent`` and
``cli``.
"""
