"""What every host of leaders and members shares, whether its pods are processes or Kubernetes pods.

This package holds the loop of a Worker (``worker_loop``) over the interface of a ``platform``, a Worker's
resource as its leader's settings, and the statuses that people read. Where pods run and how they are created
belongs to the platforms (``local``, ``controller``). May import ``crd``, ``pool`` and ``leader``.
"""
