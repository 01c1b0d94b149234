"""Properties of the machine for all requests, in any order, and for any passing of time."""

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cooperator.group import GroupState
from tests.simulation.broker.machine import GroupCoordinator
from tests.simulation.broker.messages import (
    Answer,
    Described,
    DescribeGroup,
    Error,
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    Request,
    Synced,
    SyncGroup,
)
from tests.simulation.broker.settings import BrokerSettings

NAMES = ("a", "b", "c", "s", "t")
STATIC = ("s", "t")
names = st.sampled_from(NAMES)
offers = st.sampled_from((("sessioned", "compatible"), ("compatible", "sessioned"), ("sessioned",)))
time_outs_ms = st.sampled_from((1_000, 5_000, 60_000))


@dataclass
class Client:
    """A member's own knowledge."""

    name: str
    member_id: str = ""
    generation: int = -1

    @property
    def instance_id(self) -> str | None:
        return self.name if self.name in STATIC else None


class AnybodySaysAnything(RuleBasedStateMachine):
    @initialize(
        delay_ms=st.sampled_from((0, 3_000)),
        limit_bytes=st.sampled_from((1_000, 1_000_000)),
        chance=st.randoms(use_true_random=False),
    )
    def begin(self, delay_ms: int, limit_bytes: int, chance) -> None:  # type: ignore[no-untyped-def]
        broker = BrokerSettings(
            initial_rebalance_delay_ms=delay_ms,
            min_session_timeout_ms=1_000,
            max_record_bytes=limit_bytes,
        )
        self.machine = GroupCoordinator(broker, chance.choice)
        self.clients = {name: Client(name) for name in NAMES}
        self.now_ms = 0
        self.requests = 0
        self.waiting: dict[int, tuple[Client, Request]] = {}
        self.forget_rounds()

    def forget_rounds(self) -> None:
        """Generations start again, or repeat."""
        self.leaders: dict[int, str] = {}
        self.protocols: dict[int, str | None] = {}
        self.assigned: dict[int, dict[str, bytes]] = {}

    # --- what happens --------------------------------------------------------------------------------

    @rule(
        name=names,
        offered=offers,
        size=st.sampled_from((1, 400)),
        session_ms=time_outs_ms,
        round_ms=time_outs_ms,
    )
    def join(self, name: str, offered: tuple[str, ...], size: int, session_ms: int, round_ms: int) -> None:
        protocols = tuple((protocol, name.encode() * size) for protocol in offered)
        self.send_join(self.clients[name], protocols, session_ms, round_ms)

    @rule(name=names)
    def join_again(self, name: str) -> None:
        self.send_join(self.clients[name], (("sessioned", b"m"), ("compatible", b"m")), 60_000, 60_000)

    @rule(chosen=st.sets(names, min_size=1), times=st.integers(1, 4), named=st.integers(0, 5))
    def go_on(self, chosen: set[str], times: int, named: int = 5) -> None:
        """These act as members do, often, because otherwise there would hardly ever be a group."""
        for name in sorted(chosen) * times:
            group, client = self.machine.group, self.clients[name]
            if any(waiting is client for waiting, _ in self.waiting.values()):
                continue
            if group is None or client.member_id not in group.members or group.state is GroupState.PREPARING:
                self.join_again(name)
            elif group.state is GroupState.COMPLETING:
                self.sync(name, 1, named)
            else:
                self.beat(name)

    @rule(chosen=st.sets(names, min_size=2))
    def settle(self, chosen: set[str]) -> None:
        self.go_on(chosen, 4)
        if self.machine.group is not None and self.machine.group.initial:
            self.let_time_pass(early=False)
            self.go_on(chosen, 2)

    @rule(name=names, size=st.sampled_from((1, 400)), named=st.integers(0, 5))
    def sync(self, name: str, size: int, named: int = 5) -> None:
        client, group = self.clients[name], self.machine.group
        members = [] if group is None else list(group.members)
        assignments = {m: f"{client.generation} {m}".encode() * size for m in members[:named]}
        request = SyncGroup(
            self.connection(client), client.member_id, client.generation, client.instance_id, assignments
        )
        self.say(client, request)

    @rule(name=names)
    def beat(self, name: str) -> None:
        client = self.clients[name]
        self.say(
            client,
            Heartbeat(self.connection(client), client.member_id, client.generation, client.instance_id),
        )

    @rule(name=names, named=st.lists(names, max_size=4), by_instance=st.booleans())
    def remove(self, name: str, named: list[str], by_instance: bool) -> None:
        members = tuple(
            ("", self.clients[n].instance_id) if by_instance else (self.clients[n].member_id, None)
            for n in named
        )
        client = self.clients[name]
        self.say(client, LeaveGroup(self.connection(client), members))

    @rule(name=names)
    def forget(self, name: str) -> None:
        self.clients[name].member_id, self.clients[name].generation = "", -1

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def hang_up(self, data: st.DataObject) -> None:
        request_id = data.draw(st.sampled_from(sorted(self.waiting)))
        _, request = self.waiting.pop(request_id)
        self.machine.disconnect(request.client, self.now_ms)

    @precondition(lambda self: self.machine.group is not None and self.machine.group.members)
    @rule(early=st.booleans())
    def let_time_pass(self, early: bool) -> None:
        wake_ms = self.machine.next_wake_ms()
        assert wake_ms is not None
        self.now_ms = max(self.now_ms, wake_ms - early)
        self.hear(self.machine.tick(self.now_ms))

    @precondition(lambda self: self.requests % 5 == 0)
    @rule()
    def restart(self) -> None:
        self.machine.restart(self.now_ms)
        self.waiting.clear()
        known = self.assigned
        self.forget_rounds()
        group = self.machine.group
        if group is not None and group.state is GroupState.STABLE:
            found = {m.instance_id or m.member_id: m.assignment for m in group.members.values()}
            assert found == known[group.generation], "assignments are found again"
            self.assigned = {group.generation: found}

    # --- what is true --------------------------------------------------------------------------------

    @invariant()
    def is_sound(self) -> None:
        self.machine.validate()

    @invariant()
    def tells_metadata_only_while_stable(self) -> None:
        *others, (_, answer) = self.machine.handle(0, DescribeGroup("inspector"), self.now_ms)
        self.hear(others)
        assert isinstance(answer, Described)
        described = any(member.metadata for member in answer.group.members)
        assert described == (answer.group.state is GroupState.STABLE)

    def teardown(self) -> None:
        """If nobody speaks any more the group comes to its end, and waiting members have been answered."""
        alive = {request_id for request_id, _ in self.parked()}
        for _ in range(1_000_000):
            wake_ms = self.machine.next_wake_ms()
            if wake_ms is None:
                break
            self.now_ms = max(self.now_ms, wake_ms)
            self.hear(self.machine.tick(self.now_ms))
            self.machine.validate()
        assert self.machine.group is None
        assert not alive & self.waiting.keys()

    def parked(self) -> list[tuple[int, str]]:
        """Requests that the machine keeps, and whose they are."""
        members = () if self.machine.group is None else self.machine.group.members.values()
        return [(p.request_id, m.member_id) for m in members for p in m.parked if p.request_id is not None]

    # --- saying and hearing --------------------------------------------------------------------------

    def send_join(
        self, client: Client, protocols: tuple[tuple[str, bytes], ...], session_ms: int, round_ms: int
    ) -> None:
        self.say(
            client,
            JoinGroup(
                self.connection(client),
                client.member_id,
                client.instance_id,
                protocols,
                session_ms,
                round_ms,
                client.name,
            ),
        )

    def connection(self, client: Client) -> str:
        """Each request has a new connection: the last one may be waiting."""
        return f"{client.name}/{self.requests + 1}"

    def say(self, client: Client, request: Request) -> None:
        self.requests += 1
        self.waiting[self.requests] = (client, request)
        before, wake_ms = self.state_and_generation(), self.machine.next_wake_ms()
        answers = self.machine.handle(self.requests, request, self.now_ms)
        after, group = self.state_and_generation(), self.machine.group
        if group is not None and before[0] is GroupState.COMPLETING and after[0] is GroupState.STABLE:
            assert isinstance(request, SyncGroup)
            self.assigned[group.generation] = {
                member.instance_id or member_id: request.assignments.get(member_id, b"")
                for member_id, member in group.members.items()
            }
        if group is not None and group.members and after[1] > before[1]:
            assert not group.pending or (wake_ms or 0) <= self.now_ms, "only time passes over a pending id"
        self.hear(answers)
        if self.requests in self.waiting:
            assert isinstance(request, JoinGroup | SyncGroup), "nothing else waits"
            assert self.requests in {request_id for request_id, _ in self.parked()}, "somebody waits in it"

    def state_and_generation(self) -> tuple[GroupState, int]:
        group = self.machine.group
        return (GroupState.DEAD, -1) if group is None else (group.state, group.generation)

    def hear(self, answers: list[tuple[int, Answer]]) -> None:
        for request_id, answer in answers:
            assert request_id in self.waiting, "once, and nobody whose connection is gone"
            client, request = self.waiting.pop(request_id)
            if isinstance(answer, Joined):
                self.hear_joined(client, request, answer)
            elif isinstance(answer, Synced) and isinstance(request, SyncGroup):
                self.hear_synced(request, answer)
        if self.machine.group is None:
            self.forget_rounds()

    def hear_joined(self, client: Client, request: Request, answer: Joined) -> None:
        assert isinstance(request, JoinGroup)
        if answer.error is Error.MEMBER_ID_REQUIRED:
            assert request.member_id == ""
            assert request.instance_id is None
            client.member_id = answer.member_id
        elif answer.error is Error.UNKNOWN_MEMBER_ID:
            client.member_id = ""
        if answer.error is not Error.NONE:
            assert not answer.members
            return
        client.member_id, client.generation = answer.member_id, answer.generation
        assert self.leaders.setdefault(answer.generation, whose(answer.leader)) == whose(answer.leader)
        assert self.protocols.setdefault(answer.generation, answer.protocol) == answer.protocol
        assert answer.protocol in dict(request.protocols)
        leads = answer.leader == answer.member_id
        assert leads == bool(answer.members), "the leader is told the members, and nobody else is"
        assert not leads or answer.member_id in {member_id for member_id, _, _ in answer.members}
        assert not answer.skip_assignment or (leads and client.instance_id is not None)

    def hear_synced(self, request: SyncGroup, answer: Synced) -> None:
        """An assignment is that of the generation's leader."""
        if answer.error is not Error.NONE:
            assert answer.assignment == b""
            return
        group = self.machine.group
        assert group is not None
        described = self.assigned[group.generation]
        assert answer.assignment == described[request.instance_id or request.member_id]


def whose(member_id: str) -> str:
    """Identifies a leader: a static member keeps the lead under another id."""
    name = member_id.partition("-")[0]
    return name if name in STATIC else member_id


TestWhateverIsSaid = AnybodySaysAnything.TestCase
TestWhateverIsSaid.settings = settings(max_examples=300, stateful_step_count=50, deadline=None)


def test_a_newcomer_that_has_gone_away_keeps_its_place_for_five_minutes_at_most() -> None:
    """The one rule for which no test waits for a real broker."""
    machine = GroupCoordinator(BrokerSettings(initial_rebalance_delay_ms=0), lambda ids: ids[0])

    def join(request_id: int, name: str, member_id: str = "") -> list[tuple[int, Answer]]:
        offered = (("sessioned", b"m"),)
        request = JoinGroup(name, member_id, name, offered, 1_800_000, 1_800_000, name)
        return machine.handle(request_id, request, 0) + machine.tick(0)

    ((_, leader),) = join(1, "a")
    assert isinstance(leader, Joined)
    assert leader.error is Error.NONE
    assert join(2, "b") == []
    assert machine.tick(299_999) == []
    assert machine.tick(300_000) == [(2, Joined(Error.UNKNOWN_MEMBER_ID))]
    machine.validate()
