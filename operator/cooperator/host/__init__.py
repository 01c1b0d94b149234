"""What every host of leaders and members shares, be its pods processes or Kubernetes'.

What may live here: the group as the pool sees it, the pool's step (observe, decide, tell the leader, act), a
Worker's resource as the settings of its leader, and the statuses that people read. Where pods live, and who
is asked to make one, belongs to the hosts (``local``, ``controller``). May import ``crd``, ``pool`` and
``leader``.
"""
