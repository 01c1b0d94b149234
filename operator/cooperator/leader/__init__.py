"""Leading a group: plans rounds, keeps the memory, writes the configuration, notices departures.

This package holds the leader's decisions as a pure machine (``machine``; ``rounds``, ``between_rounds`` and
``writes`` are its parts), the reconciliation of the config log with the desired state (``reconcile``), the
confirmation of leases (``lease_confirmation``) and the status as a projection (``observability.projection``).
Their shells are the thread that feeds the machine (``leader_thread``), what carries its instructions out
(``actuator``), the HTTP endpoint (``endpoint``), the operator's service (``service``) and the small part that
a member needs when the broker makes it the leader (``member_lead``). Only events change the machine's state;
``invariants`` states what holds after each, and ``story`` records their effects.
``observability.group_inspector`` reads a group from outside, to answer questions "what if". May import
``group``, ``logs``, ``planner``, ``scenarios``, ``wire`` and ``model``.
"""
