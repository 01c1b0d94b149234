"""One side of a comparison: what its clients remember, and its answers with ids common to both sides."""

import zlib
from dataclasses import dataclass, field

from cooperator.group import DescribedMember
from tests.simulation.broker import messages as say
from tests.simulation.broker.script import Line, text_of

_SUFFIX = 37
"""The length of a member id after its prefix: a dash and a UUID."""


@dataclass
class Memory:
    """The requests and responses of a client."""

    offers: tuple[str, ...] = ("sessioned", "compatible", "default")
    says: bytes = b""
    instance_id: str | None = None
    session_timeout_ms: int = 60_000
    rebalance_timeout_ms: int = 60_000
    member_id: str = say.UNKNOWN_MEMBER
    generation: int = say.NO_GENERATION
    members: tuple[str, ...] = ()

    def take(self, said: dict[str, str]) -> None:
        if "offers" in said:
            self.offers = tuple(name for name in said["offers"].split(",") if name)
        if "says" in said:
            self.says = text_of(said["says"])
        if "as" in said:
            self.instance_id = said["as"] or None
        self.session_timeout_ms = int(said.get("session", self.session_timeout_ms))
        self.rebalance_timeout_ms = int(said.get("rebalance", self.rebalance_timeout_ms))


@dataclass
class Speaker:
    """Names a client's ids ``a.1``, ``a.2``, ... in the order in which it received them."""

    memories: dict[str, Memory] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    """Names by member id."""
    seen: dict[str, str] = field(default_factory=dict)
    """Ids that no client has received yet, by name."""

    def request(self, line: Line) -> say.Request:
        """The request of ``line``, with this side's ids."""
        memory = self._memory(line.client)
        said, member_id = line.said, memory.member_id
        if "id" in said:
            member_id = self._id_of(said["id"])
        generation = int(said.get("gen", memory.generation))
        match line.verb:
            case "joins":
                memory.take(said)
                return say.JoinGroup(
                    line.connection,
                    member_id,
                    memory.instance_id,
                    tuple((name, memory.says) for name in memory.offers),
                    memory.session_timeout_ms,
                    memory.rebalance_timeout_ms,
                    line.client,
                )
            case "syncs":
                assignments = {self._id_of(k): text_of(v) for k, v in said.items() if k not in ("id", "gen")}
                if not assignments:
                    assignments = {m: f"{memory.generation} {m[:-_SUFFIX]}".encode() for m in memory.members}
                return say.SyncGroup(line.connection, member_id, generation, memory.instance_id, assignments)
            case "beats":
                return say.Heartbeat(line.connection, member_id, generation, memory.instance_id)
            case "leaves":
                return say.LeaveGroup(line.connection, ((member_id, memory.instance_id),))
            case "removes":
                named = (word.partition("@") for word in line.words)
                return say.LeaveGroup(
                    line.connection, tuple((self._id_of(c), i or None) for c, _, i in named)
                )
            case _:
                raise ValueError(f"{line}: no request")

    def forget(self, client: str) -> None:
        memory = self._memory(client)
        memory.member_id, memory.generation, memory.members = say.UNKNOWN_MEMBER, say.NO_GENERATION, ()

    def hear(self, client: str, answer: say.Answer) -> None:
        """Call this for an answer before any answer that came with it is put into words."""
        memory = self._memory(client)
        if not isinstance(answer, say.Joined):
            return
        if answer.error in (say.Error.NONE, say.Error.MEMBER_ID_REQUIRED):
            memory.member_id = answer.member_id
            if answer.member_id not in self.names:
                given_name = sum(name.startswith(f"{client}.") for name in self.names.values())
                self.names[answer.member_id] = f"{client}.{given_name + 1}"
        if answer.error is say.Error.NONE:
            memory.generation = answer.generation
            memory.members = tuple(sorted(member_id for member_id, _, _ in answer.members))

    def see(self, described: say.Described) -> None:
        self.seen = {self.name(m.member_id): m.member_id for m in described.group.members}

    def id_of(self, name: str, otherwise: str) -> str:
        return next(
            (i for i, given_name in self.names.items() if given_name == name), self.seen.get(name, otherwise)
        )

    def words(self, answer: say.Answer) -> str:
        """The whole answer, as both sides must give it."""
        match answer:
            case say.Joined(error=say.Error.NONE):
                members = sorted(f"{self.name(m)}@{i}:{_short(data)}" for m, i, data in answer.members)
                head = f"Joined({self.name(answer.member_id)}, {answer.generation}, {answer.protocol}"
                skip = ", skip_assignment" if answer.skip_assignment else ""
                return f"{head}, led by {self.name(answer.leader)}{skip}) {' '.join(members)}"
            case say.Joined():
                return f"Joined({answer.error.name}, {self.name(answer.member_id)})"
            case say.Left():
                members = [f"{self.name(m)}@{i}:{error.name}" for m, i, error in answer.members]
                return f"Left({answer.error.name}) {' '.join(members)}"
            case say.Described():
                group = answer.group
                members = sorted(self._member(member) for member in group.members)
                head = f"{answer.error.name} {group.state} {group.protocol_type!r} {group.protocol!r}"
                return f"{head} {' '.join(members)}"
            case say.Synced():
                return f"Synced({answer.error.name}, {_short(answer.assignment)})"
            case say.Heartbeaten():
                return f"Heartbeaten({answer.error.name})"

    def _memory(self, client: str) -> Memory:
        return self.memories.setdefault(client, Memory(says=client.encode()))

    def _member(self, member: DescribedMember) -> str:
        name = f"{self.name(member.member_id)}@{member.group_instance_id} of {member.client_id}"
        return f"{name}:{_short(member.metadata)}:{_short(member.assignment)}"

    def _id_of(self, client: str) -> str:
        """A client's member id; for an unknown client, the word itself."""
        return self.memories[client].member_id if client in self.memories else client

    def name(self, member_id: str) -> str:
        """Unknown ids, and words that are no ids, are named by their prefix."""
        return self.names.get(member_id, f"?{member_id[:-_SUFFIX] or member_id}")


def _short(data: bytes) -> str:
    return repr(data)[2:-1] if len(data) < 30 else f"{len(data)} bytes, {zlib.crc32(data)}"
