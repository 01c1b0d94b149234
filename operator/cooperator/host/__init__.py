"""Code shared by all platforms on which leaders and members run: local processes and Kubernetes pods.

This package holds the loop of a Worker (``worker_loop``) over the interface of a ``platform``, a Worker's
resource as its leader's settings, and the statuses that people read. Where pods run and how they are created
belongs to the platforms (``local``, ``controller``). May import ``crd``, ``pool`` and ``leader``.
"""
