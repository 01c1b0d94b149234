"""Leading a group: rounds planned, memory kept, configuration written, departures noticed.

What may live here: the leader's decisions as a pure machine (``machine``), the reconciliation of the
config log towards what is desired (``reconcile``), the confirmation of leases (``lease``), the status
as a projection (``projection``); and their shells: the thread that carries decisions out (``lead``),
the HTTP endpoint (``endpoint``), the operator's service (``service``) and the small part that a member
needs when the broker makes it the leader (``member_lead``); and the view of a group from outside, for a
question "what if" (``onlooker``).
May import ``group``, ``logs``, ``planner``, ``simulate``, ``wire`` and ``model``.
"""
