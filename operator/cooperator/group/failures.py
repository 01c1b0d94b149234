"""Failures of a membership: what to say of them, and how long to wait before the next attempt."""

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
    """This attempt to take the lead is over. ``refused``: because the listener said no."""

    def __init__(self, reason: str, refused: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.refused = refused


class PlanFailed(errors.RetriableError):  # type: ignore[misc]
    """The listener's plan ended in an exception."""


class AssignmentRefused(errors.KafkaError):  # type: ignore[misc]
    """The broker could not store the assignments of a round: each attempt costs every member a round, so
    that the pauses are the long ones."""


class CoordinatorGone(Exception):
    """No coordinator was found for long: what is known of the cluster may be out of date."""


_PART_OF_EVERY_DAY: Final = (
    errors.MemberIdRequiredError,
    errors.RebalanceInProgressError,
    errors.UnknownMemberIdError,
    errors.IllegalGenerationError,
)


def is_everyday(error: BaseException) -> bool:
    """Belongs to the protocol: rejoin at once and say nothing."""
    return isinstance(error, _PART_OF_EVERY_DAY)


_PASSES_BY_ITSELF: Final = (
    errors.CoordinatorLoadInProgressError,
    errors.CoordinatorNotAvailableError,
    errors.NotCoordinatorError,
    LeadNotTaken,
)
_PATIENCE_S: Final = 2.0


def is_worth_saying(error: BaseException, tried_for_s: float) -> bool:
    """Whether a human should hear of a failure, after attempts that have failed for ``tried_for_s``.

    A coordinator that has just moved or started is no news.
    """
    if is_everyday(error):
        return False
    return not isinstance(error, _PASSES_BY_ITSELF) or tried_for_s > _PATIENCE_S


def delay_ms(error: BaseException, attempts: int, spread: float) -> float:
    """How long to wait after the failure number ``attempts`` in a row (from 1).

    ``spread`` in [0, 1) is taken off, up to half of the delay, so that members do not come all at once.
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
    """One sentence for a human: what is wrong with which group, and what to do about it."""
    return f"group {config.group_id!r}: {reason(error, config)}"


def reason(error: BaseException, config: GroupConfig) -> str:
    """The same without the group's name."""
    for kind, text in _REMEDIES.items():
        if isinstance(error, kind):
            return f"{text.format(config=config)} ({type(error).__name__})"
    if isinstance(error, LeadNotTaken | PlanFailed | AssignmentRefused):
        return str(error.args[0])
    return str(error) or type(error).__name__


_REMEDIES: Final[dict[type[BaseException], str]] = {
    errors.InconsistentGroupProtocolError: (
        "its members use another protocol: another kind of client is in it; choose another group id"
    ),
    errors.InvalidSessionTimeoutError: (
        "the broker does not accept a session time-out of {config.session_timeout_ms} ms: choose one between "
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
