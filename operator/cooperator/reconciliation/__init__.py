"""Reconciliation without rounds (KIP-848's server side for tasks): each member moves to its target by itself.

Contents: a member's current assignment and its state (``current``), the group with its epochs, targets,
members and fences (``group``), what a report of a member changes (``reports``), when a member reports and
which answers it applies (``reporting``), new tasks that a member does not take up in time (``patience``),
joins, departures and new targets (``membership``), the records that a group consists of in a log
(``records``, ``codec``), reports and answers as bytes (``messages``), and the group that a round becomes
(``conversion``). All functions are pure: time is an argument, a group is a frozen value. No I/O. May import
``model``, and ``wire`` for its codec.

The leader (``leader.reconciled``) and the members (``agent.reports``) drive it. Kafka's terms, and what they
stand for here:

===========================  ===========================================================================
Kafka                        here
===========================  ===========================================================================
topic, partition             connector, task (its instance has the number -1)
subscription                 every member can run every connector; the layout alone decides
member id, instance id       identity of a member (a pod's name), with one incarnation at a time
group epoch                  ``epoch`` of the group: counts joins, departures, and new targets without these
assignment epoch             ``assignment_epoch`` of the group: the group epoch that targets were computed for
target assignment epoch      ``epoch`` of a ``TargetAssignment``: when this member's target last changed
member epoch                 ``member_epoch``: the target epoch that the member has reached
UNREVOKED_PARTITIONS         ``MemberState.UNREVOKED_TASKS``, the name in KIP-1071
UNRELEASED_PARTITIONS        ``MemberState.UNRELEASED_TASKS``, the name in KIP-1071
owned partitions             tasks that a member has not released: starting, running or still stopping
current partition epoch      ``occupants`` of the group, which include fenced tasks of departed incarnations
rebalance timeout            ``revocation_timeout_ms``, after which the member is overdue
===========================  ===========================================================================

Four rules differ from Kafka's. A member whose target stays the same is not moved to each new assignment
epoch, so that the cost of a change depends on what changed. Reports are numbered, because they are not
ordered by one connection; so a member may miss any number of answers, where Kafka fences it after two
(``reports``). Tasks of a departed incarnation stay fenced until its end is certain, because a task keeps
writing without the group's consent, where a consumer's commits are refused. A layout may name absent
identities, whose tasks are held.
"""

from cooperator.reconciliation.codec import decode_record, encode_records
from cooperator.reconciliation.conversion import from_round, obstacle
from cooperator.reconciliation.current import CurrentAssignment, MemberState, next_assignment
from cooperator.reconciliation.group import (
    BrokenInvariant,
    Fence,
    ReconciledGroup,
    ReconciledMember,
    TargetAssignment,
)
from cooperator.reconciliation.membership import depart, end, expire, join, retarget
from cooperator.reconciliation.patience import late, ungiven, waits, withdrawn
from cooperator.reconciliation.records import Records, changes, fold
from cooperator.reconciliation.reporting import ReportingMember, apply_answer, next_report, told_term
from cooperator.reconciliation.reports import Answer, Rejection, Report, handle_report, overdue, waiting

__all__ = [
    "Answer",
    "BrokenInvariant",
    "CurrentAssignment",
    "Fence",
    "MemberState",
    "ReconciledGroup",
    "ReconciledMember",
    "Records",
    "Rejection",
    "Report",
    "ReportingMember",
    "TargetAssignment",
    "apply_answer",
    "changes",
    "decode_record",
    "depart",
    "encode_records",
    "end",
    "expire",
    "fold",
    "from_round",
    "handle_report",
    "join",
    "late",
    "next_assignment",
    "next_report",
    "obstacle",
    "overdue",
    "retarget",
    "told_term",
    "ungiven",
    "waiting",
    "waits",
    "withdrawn",
]
