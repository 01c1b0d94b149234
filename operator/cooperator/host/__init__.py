"""What every host of leaders and members shares, whether its pods are processes or Kubernetes pods.

This package holds the group as the pool sees it, the pool's step (observe, decide, tell the leader, act), a
Worker's resource as its leader's settings, and the statuses that people read. Where pods run and how they are
created belongs to the hosts (``local``, ``controller``). May import ``crd``, ``pool`` and ``leader``.
"""
