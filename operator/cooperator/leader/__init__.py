"""Leading a group: plans rounds, keeps the memory, writes the configuration, notices departures.

This package holds the leader's decisions as a pure machine (``machine``), the reconciliation of the config
log with the desired state (``reconcile``), the confirmation of leases (``lease_confirmation``) and the status
as a projection (``observability.projection``). Their shells are the thread that carries decisions out
(``leader_thread``), the HTTP endpoint (``endpoint``), the operator's service (``service``) and the small part
that a member needs when the broker makes it the leader (``member_lead``). ``observability.group_inspector``
reads a group from outside, to answer questions "what if".
May import ``group``, ``logs``, ``planner``, ``scenarios``, ``wire`` and ``model``.
"""
