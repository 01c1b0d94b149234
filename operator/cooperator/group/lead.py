"""Carries out the decisions of ``takeover``: our JoinGroup on one connection, all else on the other."""

from dataclasses import dataclass
from typing import Any, Final, Protocol

from kafka.net.selector import NetworkSelector
from kafka.protocol.consumer import UNKNOWN_MEMBER_ID

from cooperator.group import takeover as to
from cooperator.group.admin import GroupAdmin
from cooperator.group.config import GroupConfig
from cooperator.group.failures import LeadNotTaken, explain, reason
from cooperator.group.guarded_listener import GuardedListener, ListenerFailed
from cooperator.group.library import Task, errors, sleep_ms
from cooperator.group.listener import JoinedMember

_EVICTED: Final = "the operator of this group takes the lead"
_WITHDRAWN: Final = "withdraws without having led"
_RELEASED: Final = "the round may complete"
_LAST_WORDS_MS: Final = 1_000
_TELLS_WHO_LEADS: Final = 9
_UUID_LENGTH: Final = 37
"""Length of the hyphen and the UUID that the broker appends to a client id to make a member id."""


@dataclass(frozen=True, slots=True)
class JoinAnswer:
    """A JoinGroup response. ``answer``: who leads. ``members``: known to the leader only."""

    answer: to.Answer
    generation: int
    protocol: str
    member_id: str
    members: tuple[JoinedMember, ...]


def read_answer(response: Any, takes_a_place: bool) -> JoinAnswer:
    """Interpret a JoinGroup response without an error.

    ``takes_a_place``: a static member joined without a member id and may have replaced its earlier
    incarnation. The broker tells such a member about the lead only from version 9 on.
    """
    if response.leader == response.member_id:
        answer = to.Answer.REPLACED if response.skip_assignment else to.Answer.LEADS
    elif takes_a_place and response.API_VERSION < _TELLS_WHO_LEADS:
        answer = to.Answer.UNKNOWN
    else:
        answer = to.Answer.FOLLOWS
    members = tuple(
        JoinedMember(
            member.member_id,
            member.group_instance_id,
            bytes(member.metadata),
            client_id="" if member.group_instance_id else member.member_id[:-_UUID_LENGTH],
        )
        for member in response.members
    )
    return JoinAnswer(
        answer, response.generation_id, response.protocol_name or "", response.member_id, members
    )


class Joiner(Protocol):
    """The member that is to lead."""

    async def join(self) -> JoinAnswer:
        """Send one JoinGroup and return its answer; raises KafkaError."""
        ...

    def abandon_join(self) -> None:
        """Give up an unanswered JoinGroup, so that no answer arrives later."""
        ...

    def forget_member_id(self) -> None:
        """Make the next join that of a new member."""
        ...


class LeadTaker:
    """Takes the lead of the group for ``joiner``, one attempt at a time."""

    def __init__(
        self,
        loop: NetworkSelector,
        config: GroupConfig,
        listener: GuardedListener,
        admin: GroupAdmin,
        joiner: Joiner,
    ) -> None:
        assert config.group_instance_id is not None, "the leader is a static member"
        self._instance_id = config.group_instance_id
        self._config = config
        self._patience_ms = config.rebalance_timeout_ms
        self._loop = loop
        self._listener = listener
        self._admin = admin
        self._joiner = joiner
        self._state = to.TakeOver(self._instance_id, self._patience_ms)
        self._join: Task | None = None
        self._evicted: list[str] = []

    @property
    def traces(self) -> list[tuple[str, str | None]]:
        """(member id, group instance id) pairs of an unfinished attempt, to be removed from the group.

        Our parked member, while we have not seen it yet, is named by its instance id alone.
        """
        if not self._state.joining or self._state.confirming:
            return []
        own = [(self._state.own or UNKNOWN_MEMBER_ID, self._instance_id)]
        pending_member = [] if self._state.pending_member is None else [(self._state.pending_member, None)]
        return [*own, *pending_member]

    async def take(self, following_as: str | None) -> tuple[JoinAnswer, tuple[str, ...]]:
        """Take the lead; returns the JoinGroup answer that gave it, and the ids evicted over all attempts.

        ``following_as``: our member id in a round that another member leads. Raises LeadNotTaken, and
        FencedInstanceIdError.
        """
        self._joiner.forget_member_id()
        if following_as is None:
            self._state, step = to.begin(self._instance_id, self._patience_ms)
        else:
            self._state, step = to.begin_as_follower(self._instance_id, self._patience_ms, following_as)
        answer: JoinAnswer | None = None
        try:
            while not isinstance(step, to.BeginLeading | to.TakeoverEnded):
                event = await self._carry_out(step)
                if event is not None:
                    self._state, step = to.advance(self._state, event)
                if self._join is not None and self._join.done:
                    answer, event = self._answered(self._join)
                    self._state, step = to.advance(self._state, event)
            if isinstance(step, to.TakeoverEnded):
                raise LeadNotTaken(step.reason, step.refused)
            await self._release(step.pending_member)
        except errors.FencedInstanceIdError:
            # The process that fenced us is in a round that would wait for our pending member.
            await self._release(self._state.pending_member)
            raise
        finally:
            self._drop_join()
            self._state = to.TakeOver(self._instance_id, self._patience_ms)
        assert answer is not None, "led without a JoinGroup answer"
        evicted = tuple(self._evicted)
        self._evicted.clear()
        return answer, evicted

    async def _carry_out(self, step: to.Step) -> to.Event | None:
        try:
            match step:
                case to.Describe(after_ms):
                    await self._pause(after_ms)
                    return to.Described(await self._admin.describe())
                case to.Ask(members):
                    return to.Verdict(self._listener.refusal(members))
                case to.AddPendingMember():
                    return to.PendingMemberAdded(await self._admin.add_pending(self._listener.protocols()))
                case to.Join():
                    self._join = Task(self._loop, self._joiner.join)
                    return to.Sent()
                case to.Evict(members):
                    self._evicted += [member.member_id for member in members]
                    named = [(member.member_id, member.group_instance_id) for member in members]
                    await self._admin.remove(named, _EVICTED)
                    return to.Done(step)
                case to.Release(pending_member):
                    await self._admin.remove([(pending_member, None)], _RELEASED)
                    return to.Done(step)
                case to.Withdraw(member_id, pending_member):
                    own = [] if member_id is None else [(member_id, self._instance_id)]
                    pending = [] if pending_member is None else [(pending_member, None)]
                    await self._admin.remove([*own, *pending], _WITHDRAWN)
                    await self._end_join()
                    return to.Done(step)
                case to.AwaitAnswer() if self._join is not None:
                    await self._join.wait()
                    return None
                case _:
                    raise AssertionError(f"nothing to carry out: {step}")
        except (errors.KafkaError, ListenerFailed) as error:
            parked = self._join is not None and not self._join.done
            return to.Failed(reason(error, self._config), joining=parked)

    async def _pause(self, duration_ms: float) -> None:
        if self._join is not None:
            await self._join.wait(duration_ms)
        else:
            await sleep_ms(self._loop, duration_ms)

    def _answered(self, join: Task) -> tuple[JoinAnswer | None, to.Event]:
        self._join = None
        try:
            answer: JoinAnswer = join.result()
        except errors.FencedInstanceIdError:
            raise
        except (errors.KafkaError, ListenerFailed) as error:
            return None, to.Failed(reason(error, self._config), joining=False)
        return answer, to.Answered(answer.answer, answer.member_id)

    async def _end_join(self) -> None:
        """Our member was removed, so a pending JoinGroup is answered with an error now."""
        if self._join is not None:
            await self._join.wait(_LAST_WORDS_MS)
        self._drop_join()
        self._joiner.forget_member_id()

    def _drop_join(self) -> None:
        if self._join is not None and not self._join.done:
            self._joiner.abandon_join()
        self._join = None

    async def _release(self, pending_member: str | None) -> None:
        if pending_member is None:
            return
        try:
            await self._admin.remove([(pending_member, None)], _RELEASED)
        except errors.KafkaError as error:
            self._listener.trouble(
                f"the next round may take one session time-out: {explain(error, self._config)}"
            )
