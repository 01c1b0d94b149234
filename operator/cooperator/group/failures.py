"""Failures of a membership: their messages, and the delay before the next attempt."""

from typing import Final

from cooperator.group.config import GroupConfig
from cooperator.group.library import errors

_AT_ONCE_ATTEMPTS: Final = 3
_AT_ONCE_MAX_MS: Final = 200
_RETRIABLE_MAX_MS: Final = 1_000
_OTHER_MAX_MS: Final = 5_000
_REFUSED_MIN_MS: Final = 1_000
_REFUSED_MAX_MS: Final = 10_000


class LeadNotTaken(errors.RetriableError):  # type: ignore[misc]
    """This attempt to take the lead is over. ``refused``: because the listener refused it."""

    def __init__(self, reason: str, refused: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.refused = refused


class PlanFailed(errors.RetriableError):  # type: ignore[misc]
    """The listener's plan ended in an exception."""


class AssignmentRefused(errors.KafkaError):  # type: ignore[misc]
    """The broker could not store the assignments of a round.

    Each attempt costs every member a round, hence the long delays.
    """


class CoordinatorGone(Exception):
    """No coordinator was found for long: the known cluster metadata may be out of date."""


_PART_OF_EVERY_DAY: Final = (
    errors.MemberIdRequiredError,
    errors.RebalanceInProgressError,
    errors.UnknownMemberIdError,
    errors.IllegalGenerationError,
)


def is_everyday(error: BaseException) -> bool:
    """Whether the error is part of the protocol: rejoin at once and report nothing."""
    return isinstance(error, _PART_OF_EVERY_DAY)


_PASSES_BY_ITSELF: Final = (
    errors.CoordinatorLoadInProgressError,
    errors.CoordinatorNotAvailableError,
    errors.NotCoordinatorError,
    LeadNotTaken,
)
_PATIENCE_S: Final = 2.0
SAY_AFTER_S: Final = 5.0
"""Time (s) that a member waits before it reports that it does."""


def is_worth_saying(error: BaseException, tried_for_s: float) -> bool:
    """Whether to report a failure to humans, after attempts that have failed for ``tried_for_s``.

    A coordinator that has just moved or started is not worth a report.
    """
    if is_everyday(error):
        return False
    return not isinstance(error, _PASSES_BY_ITSELF) or tried_for_s > _PATIENCE_S


def delay_ms(error: BaseException, attempts: int, spread: float) -> float:
    """The delay after the ``attempts``-th failure in a row (from 1).

    ``spread`` in [0, 1) shortens it by up to a half, so that members do not retry all at once.
    """
    if is_everyday(error):
        ceiling_ms = 0.0 if attempts <= _AT_ONCE_ATTEMPTS else _AT_ONCE_MAX_MS
    elif isinstance(error, LeadNotTaken) and error.refused:
        ceiling_ms = min(_REFUSED_MIN_MS * 2.0 ** min(attempts - 1, 10), _REFUSED_MAX_MS)
    else:
        longest_ms = _RETRIABLE_MAX_MS if isinstance(error, errors.RetriableError) else _OTHER_MAX_MS
        ceiling_ms = min(100 * 2.0 ** min(attempts - 1, 10), longest_ms)
    return ceiling_ms * (1 - spread / 2)


def explain(error: BaseException, config: GroupConfig) -> str:
    """One sentence for humans: what is wrong with which group, and the remedy."""
    return f"group {config.group_id!r}: {reason(error, config)}"


def reason(error: BaseException, config: GroupConfig) -> str:
    """As ``explain``, without the group's name."""
    for kind, text in _REMEDIES.items():
        if isinstance(error, kind):
            return f"{text.format(config=config)} ({type(error).__name__})"
    if isinstance(error, LeadNotTaken | PlanFailed | AssignmentRefused):
        return str(error.args[0])
    return str(error) or type(error).__name__


def waiting(what: str, waited_s: float, refusal: str, config: GroupConfig) -> str:
    """The report of a member that has waited for ``what`` for so long; empty while the wait is normal.

    ``refusal``: why the listener did not let the lead be taken, which is not the broker's fault.
    """
    if waited_s <= SAY_AFTER_S:
        return ""
    if refusal:
        return f"group {config.group_id!r}: the lead is not taken: {refusal}"
    return (
        f"group {config.group_id!r}: has been waiting for {what} for more than {SAY_AFTER_S:.0f} s "
        f"(brokers: {config.bootstrap_servers})"
    )


_REMEDIES: Final[dict[type[BaseException], str]] = {
    errors.InconsistentGroupProtocolError: (
        "its members use another protocol: it is used by another kind of client; use another group id"
    ),
    errors.InvalidSessionTimeoutError: (
        "the broker does not accept a session time-out of {config.session_timeout_ms} ms: use one between "
        "its group.min.session.timeout.ms and group.max.session.timeout.ms"
    ),
    errors.GroupMaxSizeReachedError: "it is full: raise the broker's group.max.size",
    errors.GroupAuthorizationFailedError: (
        "not authorized: grant this client READ and DESCRIBE on the group"
    ),
    errors.InvalidGroupIdError: "the broker does not accept this group id",
    errors.SaslAuthenticationFailedError: "the broker refused the credentials",
    errors.CoordinatorLoadInProgressError: "its coordinator is loading, which ends by itself",
    errors.CoordinatorNotAvailableError: "its coordinator is not available",
    errors.NotCoordinatorError: "its coordinator has moved",
}
