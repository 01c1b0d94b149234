"""A member of a classic group, on kafka-python's BaseCoordinator (3.0.12, pinned).

The library finds the coordinator, classifies responses, keeps generation and member id, and schedules the
heartbeats. This module overrides (docs/decisions/006-membership.md):

* ``_do_join_and_sync_async``: one attempt at a round. The leader takes the lead through ``lead``, awaits its
  plan while heartbeats go on, and never syncs in a round that another member leads;
* ``_do_heartbeat``: records the sending time for the lease, and reports the outcome;
* ``need_rejoin``, so that no request for a round is lost; ``coordinator_dead``, to report it;
* the poll time-out: a member that answers heartbeats here is alive by construction.
"""

import random
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from kafka.coordinator.base import BaseCoordinator
from kafka.coordinator.heartbeat import Heartbeat
from kafka.net.selector import NetworkSelector
from kafka.net.wakeup_notifier import WakeupNotifier
from kafka.protocol.consumer import UNKNOWN_MEMBER_ID, JoinGroupRequest, SyncGroupRequest
from kafka.structs import MemberState

from cooperator.group import failures
from cooperator.group.admin import GroupAdmin
from cooperator.group.config import GroupConfig
from cooperator.group.guarded_listener import GuardedListener
from cooperator.group.lead import JoinAnswer, LeadTaker, read_answer
from cooperator.group.library import (
    Connections,
    errors,
    now_s,
    parked_timeout_ms,
    request_timeout_ms,
    sleep_ms,
    wake,
)
from cooperator.group.listener import Joined, Round
from cooperator.group.planning import await_done, await_plan
from cooperator.group.takeover import PROTOCOL_TYPE, Answer
from cooperator.model.text import counted
from cooperator.wire import Role

_TICK_MS: Final = 1_000
_GIVE_UP_AFTER_S: Final = 20.0
_JOIN_VERSION: Final = 9
_SYNC_VERSION: Final = 5


class _AlwaysPolled(Heartbeat):  # type: ignore[misc]
    def poll_timeout_expired(self) -> bool:
        return False


class Coordinator(BaseCoordinator):  # type: ignore[misc]
    """One member. All methods must be called on the loop's thread, unless they say otherwise."""

    def __init__(
        self,
        loop: NetworkSelector,
        config: GroupConfig,
        listener: GuardedListener,
        connections: Connections,
        admin: GroupAdmin,
    ) -> None:
        super().__init__(
            connections.client,
            group_id=config.group_id,
            group_instance_id=config.group_instance_id,
            session_timeout_ms=config.session_timeout_ms,
            heartbeat_interval_ms=config.heartbeat_interval_ms,
            max_poll_interval_ms=config.rebalance_timeout_ms,
            request_timeout_ms=request_timeout_ms(config),
            api_version=connections.broker_version,
        )
        self.heartbeat = _AlwaysPolled(**self.config)
        self.leading = False
        self.fenced = False
        self.round_in_hand = False
        """True between the responses to JoinGroup and SyncGroup of a round that this member leads."""
        self.instance_ids: Mapping[str, str | None] = {}
        """Group instance ids by member id, from the last round that this member led."""
        self._group = config
        self._loop = loop
        self._listener = listener
        self._taker = LeadTaker(loop, config, listener, admin, self) if config.role is Role.LEADER else None
        self._turn = WakeupNotifier(loop)
        self._asked = 0
        self._served = 0
        self._reason = "joins"
        self._following_as: str | None = None
        self._attempts = 0
        self._trying_since = now_s()
        self._ending = False
        self._handled: BaseException | None = None
        self._waiting: tuple[float, str] = (now_s(), "")
        self._refusal = ""

    # --- for the membership --------------------------------------------------------------------------

    @property
    def member_id(self) -> str:
        """Any thread. Empty when the broker does not know this member."""
        return str(self._generation.member_id)

    @property
    def generation_id(self) -> int:
        """Any thread. -1 when the member is in no round."""
        return int(self._generation.generation_id)

    def resume(self, earlier: "Coordinator") -> None:
        """Continue as the member that ``earlier`` was to the broker, over new connections."""
        self._generation: Any = earlier._generation
        self._following_as = earlier._following_as
        self.leading = earlier.leading

    def ask_rejoin(self, reason: str) -> None:
        """Any thread."""
        with self._lock:
            self._reason = reason
            self._asked += 1
        wake(self._turn)

    def end(self) -> list[tuple[str, str | None]]:
        """Send nothing more.

        Returns what an unfinished attempt at the lead has left in the group: (member id, group instance id)
        pairs.
        """
        self._ending = True
        self._close_heartbeat()
        return [] if self._taker is None else self._taker.traces

    async def stay(self) -> None:
        """Join and rejoin until fenced. Raises CoordinatorGone when no coordinator was found for long."""
        while not self.fenced and not self._ending:
            try:
                if not await self.ensure_active_group_async(timeout_ms=_TICK_MS):
                    self._say_what_is_waited_for()
                self.poll_heartbeat()
            except errors.FencedInstanceIdError:
                self._fence()
            except failures.CoordinatorGone:
                raise
            except Exception as error:
                if error is not self._handled:
                    await self._after_failure(error)
            if not self.need_rejoin() and not self.fenced:
                await self._turn(_TICK_MS / 1000)

    # --- joining -------------------------------------------------------------------------------------

    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    def group_protocols(self) -> list[tuple[str, bytes]]:
        return self._listener.protocols()

    def _perform_assignment(self, leader_id: str, protocol: str, members: Any) -> Any:
        raise AssertionError("plans are awaited, in _do_join_and_sync_async")

    def need_rejoin(self) -> bool:
        return bool(super().need_rejoin()) or self._asked > self._served

    async def _do_join_and_sync_async(self) -> bytes:
        if self._attempts == 0:
            self._trying_since = now_s()
        try:
            answer = await self._joined()
            if answer.answer is Answer.LEADS:
                assignment = await self._lead(answer)
            else:
                self._wait_for("the plan of the member that leads")
                assignment = await self._sync({})
        except errors.FencedInstanceIdError:
            raise
        except errors.KafkaError as error:
            self._handled = error
            await self._after_failure(error)
            raise
        self._attempts = 0
        self._refusal = ""
        return assignment

    async def _on_join_complete_async(
        self, generation: int, member_id: str, protocol: str, member_assignment_bytes: bytes
    ) -> None:
        self._listener.joined(Joined(generation, member_id, protocol, bytes(member_assignment_bytes)))

    async def _joined(self) -> JoinAnswer:
        if self._taker is None:
            answer = await self.join()
            self.leading = answer.answer is Answer.LEADS
            return answer
        if not self.leading:
            following_as, self._following_as = self._following_as, None
            self._wait_for("the lead")
            answer, evicted = await self._taker.take(following_as)
            self.leading = True
            self._listener.lead_taken(evicted)
            return answer
        answer = await self.join()
        if answer.answer is not Answer.LEADS:
            self._following_as = answer.member_id
            self._lose_lead()
            raise failures.LeadNotTaken("another member leads")
        return answer

    async def join(self) -> JoinAnswer:
        if self._ending:
            raise errors.Cancelled()
        await self._prepared()
        if self.coordinator_unknown():
            raise errors.CoordinatorNotAvailableError()
        self.state = MemberState.REBALANCING
        self._served = self._asked
        self.request_rejoin()  # Stays set until this attempt has succeeded, whoever asked for it.
        anonymous = self.member_id == UNKNOWN_MEMBER_ID
        protocols = self.group_protocols()
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self._group.session_timeout_ms,
            rebalance_timeout_ms=self._group.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=protocols,
            reason=self._reason[:255],
            max_version=_JOIN_VERSION,
        )
        self._wait_for("other members")
        sent_at = now_s()
        response = await self._manager.send(
            request, node_id=self.coordinator_id, request_timeout_ms=parked_timeout_ms(self._group)
        )
        self._process_join_group_response(response, sent_at)
        if self.leading and self.group_protocols() == protocols:
            # A leader plans from now on: the plan includes what it has asked for while the round waited,
            # unless members are to see other metadata of it.
            self._served = self._asked
        await self._after_waiting(sent_at)
        return read_answer(response, takes_a_place=anonymous and self.group_instance_id is not None)

    async def _prepared(self) -> None:
        """Wait until the listener is ready to join; a heartbeat that fails says nothing against joining."""
        ready = self._listener.ready_to_join()
        if ready is None:
            return
        self._wait_for("its own tasks to stop")
        await await_done(self._loop, ready, self._group.heartbeat_interval_ms, self._beat_anyway)

    async def _beat_anyway(self) -> None:
        if self.member_id != UNKNOWN_MEMBER_ID and not self.coordinator_unknown():
            with suppress(errors.KafkaError):
                await self._beat()

    def abandon_join(self) -> None:
        if self.coordinator_id is not None:
            self._manager.close(node_id=self.coordinator_id)

    def forget_member_id(self) -> None:
        self.reset_generation()

    # --- leading -------------------------------------------------------------------------------------

    async def _lead(self, answer: JoinAnswer) -> bytes:
        round_ = Round(answer.generation, answer.protocol, answer.member_id, answer.members)
        self.instance_ids = {member.member_id: member.group_instance_id for member in round_.members}
        self.round_in_hand = True
        try:
            self._wait_for("its own plan")
            assignments = await await_plan(
                self._loop, self._listener.plan(round_), self._group.heartbeat_interval_ms, self._beat
            )
            return await self._sync_as_leader(round_, assignments)
        except Exception:
            self._listener.round_void(round_.generation)
            raise
        finally:
            self.round_in_hand = False

    async def _sync_as_leader(self, round_: Round, assignments: Mapping[str, bytes]) -> bytes:
        try:
            return await self._sync(assignments)
        except (errors.UnknownError, errors.MessageSizeTooLargeError, errors.RecordListTooLargeError) as e:
            size = sum(len(assignment) for assignment in assignments.values())
            metadata = sum(len(member.metadata) for member in round_.members)
            raise failures.AssignmentRefused(
                f"the broker did not store the assignments of generation {round_.generation} "
                f"({counted(len(round_.members), 'member')}, {size:,} bytes of assignments, {metadata:,} of "
                f"metadata, in one record; it says {type(e).__name__}): if that is above its "
                "message.max.bytes "
                "(1 MB by default), raise max.message.bytes of __consumer_offsets, or run fewer tasks here"
            ) from e

    async def _sync(self, assignments: Mapping[str, bytes]) -> bytes:
        if self.coordinator_unknown():
            raise errors.CoordinatorNotAvailableError()
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self._generation.protocol,
            assignments=list(assignments.items()),
            max_version=_SYNC_VERSION,
        )
        sent_at = now_s()
        response = await self._manager.send(
            request, node_id=self.coordinator_id, request_timeout_ms=parked_timeout_ms(self._group)
        )
        try:
            assignment = bytes(self._process_sync_group_response(response, sent_at))
        except errors.RebalanceInProgressError:
            # Only members get this answer, so it proves membership.
            await self._after_waiting(sent_at)
            raise
        self._listener.contact(sent_at)
        return assignment

    async def _after_waiting(self, sent_at: float) -> None:
        """Record the contact, and send a heartbeat after a long wait.

        A request that waited at the broker proves membership only as of its sending time, and the next
        request may wait as long again.
        """
        self._listener.contact(sent_at)
        if now_s() - sent_at > self._group.heartbeat_interval_ms / 1000:
            with suppress(errors.KafkaError):  # The next request meets it, too.
                await self._beat()

    def _lose_lead(self) -> None:
        was_leading, self.leading = self.leading, False
        if was_leading and self._taker is not None:
            self._listener.lead_lost()

    # --- heartbeats ----------------------------------------------------------------------------------

    async def _beat(self) -> None:
        """Send one heartbeat. Raises KafkaError; RebalanceInProgressError when the round is over."""
        self.heartbeat.sent_heartbeat()
        sent_at = now_s()
        try:
            await self._send_heartbeat_request()
        except errors.RebalanceInProgressError:
            self.heartbeat.received_heartbeat()
            self._listener.contact(sent_at)
            raise
        self.heartbeat.received_heartbeat()
        self._listener.contact(sent_at)

    async def _do_heartbeat(self) -> None:
        try:
            await self._beat()
        except errors.FencedInstanceIdError:
            self._fence()
        except errors.RebalanceInProgressError:
            self._turn.notify()
        except errors.KafkaError as error:
            self.heartbeat.fail_heartbeat()
            if isinstance(error, errors.UnknownMemberIdError):
                self._dropped()
            elif not failures.is_everyday(error):
                self._listener.trouble(failures.explain(error, self._group))
            self._turn.notify()

    # --- failures ------------------------------------------------------------------------------------

    def coordinator_dead(self, error: Any) -> None:
        was_known = self.coordinator_id is not None
        super().coordinator_dead(error)
        if was_known:
            self._wait_for("a coordinator")
            self._listener.coordinator_lost()
            self._listener.trouble(f"group {self.group_id!r}: lost its coordinator: {error}")

    def _fence(self) -> None:
        self.fenced = True
        self.leading = False
        self._close_heartbeat()
        self._turn.notify()

    def _dropped(self) -> None:
        self._listener.dropped("the broker no longer knows this member: evicted, or its session has run out")
        self._lose_lead()

    async def _after_failure(self, error: BaseException) -> None:
        """Report the failure and pause. The failed method is called again afterwards."""
        if isinstance(error, errors.UnknownMemberIdError):
            self._dropped()
        self._attempts += 1
        self._refusal = ""
        if isinstance(error, failures.LeadNotTaken) and error.refused:
            self._refusal = error.reason
            self._listener.refused(error.reason)
        elif failures.is_worth_saying(error, now_s() - self._trying_since):
            self._listener.trouble(failures.explain(error, self._group))
        await sleep_ms(self._loop, failures.delay_ms(error, self._attempts, random.random()))

    def _wait_for(self, what: str) -> None:
        self._waiting = (now_s(), what)

    def _say_what_is_waited_for(self) -> None:
        since, what = self._waiting
        waited_s = now_s() - since
        if self.coordinator_id is None and waited_s > _GIVE_UP_AFTER_S:
            raise failures.CoordinatorGone(f"group {self.group_id!r}: no coordinator for {waited_s:.0f} s")
        known = self.coordinator_id is not None
        text = failures.waiting(
            what if known else "a coordinator", waited_s, self._refusal if known else "", self._group
        )
        if text:
            self._listener.trouble(text)
