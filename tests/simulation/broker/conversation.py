"""A conversation with the machine and with a real broker at once: both must say the same.

The machine is asked first. The conversation waits until the broker has given the machine's answers; the
broker must have given no others and must describe the group as the machine does. Where the broker's choice is
arbitrary the machine chooses as Java's HashMap does.

The machine's clock is the real one, so a timer may expire during a step, on one side or on both: then the
conversation proves nothing (``Disturbed``) and is held again. When time passes on purpose the machine
advances to its next timer and waits for the broker.
"""

import time
from collections.abc import Iterable, Sequence
from typing import Final

from cooperator.group import GroupState
from tests.simulation.broker.machine import GroupCoordinator
from tests.simulation.broker.messages import Answer, DescribeGroup
from tests.simulation.broker.real import Clients, RealBroker
from tests.simulation.broker.script import Line
from tests.simulation.broker.speaker import Speaker

_PATIENCE_S: Final = 30.0
_LONG_MS: Final = 10_000
_TIMER_GUARD_MS: Final = 300


class Disturbed(Exception):
    """This computer was too slow for the conversation's time-outs."""


class Conversation:
    """One group on both sides. ``stretch`` multiplies its time-outs on a slow computer."""

    def __init__(self, broker: RealBroker, group_id: str, stretch: int = 1) -> None:
        self.machine = GroupCoordinator(broker.settings, self._as_java)
        self.stretch = stretch
        self._broker = broker
        self._group_id = group_id
        self._clients = Clients(broker.address, group_id)
        self._model, self._real = Speaker(), Speaker()
        self._transcript: list[str] = []
        self._open: dict[int, str] = {}
        """Requests that wait on both sides, with their connections."""
        self._began_s = time.monotonic()
        self._clock_ms = 0
        self._steps = 0

    def close(self) -> None:
        self._clients.close()

    @property
    def waiting(self) -> set[str]:
        """Connections with an unanswered request."""
        return set(self._open.values())

    @property
    def soon(self) -> bool:
        """Whether the passing of time leads to something audible or visible, and before long."""
        group, wake_ms = self.machine.group, self.machine.next_wake_ms()
        held_up = group is not None and group.state is GroupState.PREPARING and not self.waiting
        return wake_ms is not None and wake_ms <= self._clock_ms + _LONG_MS * self.stretch and not held_up

    def is_member(self, client: str) -> bool:
        memory = self._model.memories.get(client)
        return (
            memory is not None
            and self.machine.group is not None
            and memory.member_id in self.machine.group.members
        )

    def hold(self, lines: Iterable[Line]) -> None:
        """Raises AssertionError, with the transcript, where the two differ."""
        for line in lines:
            self._step(line)
        self._described_by_broker()
        assert not self._clients.receive(0), "all answers have been compared"

    def restarted(self) -> None:
        """The real broker has crashed and is back."""
        self._transcript.append("broker restarts")
        self._clients.close()
        self._clients = Clients(self._broker.address, self._group_id)
        self._clock_ms = max(self._clock_ms, self._real_ms(self._broker.started_s))
        self.machine.restart(self._clock_ms, self._broker.settings)
        self._open.clear()

    def _step(self, line: Line) -> None:
        self._transcript.append(str(line))
        match line.verb:
            case "forgets":
                self._model.forget(line.client)
                self._real.forget(line.client)
            case "hangs":
                self._clients.hang_up(line.connection)
                self.machine.disconnect(line.connection, self._undisturbed_now_ms())
                self._open = {i: c for i, c in self._open.items() if c != line.connection}
            case "passes":
                self._compare(self._let_time_pass())
            case _:
                self._compare(self._say(line))
        self.machine.validate()

    def _say(self, line: Line) -> dict[int, Answer]:
        self._steps += 1
        self._open[self._steps] = line.connection
        now_ms = self._undisturbed_now_ms()
        answers = self.machine.handle(self._steps, self._model.request(line), now_ms)
        # Actions that take no time happen now.
        answers += self.machine.tick(now_ms)
        self._clients.send(self._steps, self._real.request(line))
        return dict(answers)

    def _let_time_pass(self) -> dict[int, Answer]:
        before = self._described_by_machine()
        answers: list[tuple[int, Answer]] = []
        give_up_ms = self._clock_ms + _LONG_MS * self.stretch
        while not answers and self._described_by_machine() == before:
            wake_ms = self.machine.next_wake_ms()
            if wake_ms is None or wake_ms > give_up_ms:
                raise ValueError("\n".join([*self._transcript, "nothing happens for long"]))
            self._clock_ms = max(self._clock_ms, wake_ms)
            answers = self.machine.tick(self._clock_ms)
        return dict(answers)

    # --- comparison ----------------------------------------------------------------------------------

    def _compare(self, expected: dict[int, Answer]) -> None:
        deadline_s = self._deadline_s()
        answered: dict[int, Answer] = {}
        while not expected.keys() <= answered.keys() and time.monotonic() < deadline_s:
            answered |= self._clients.receive(0.1)
        for answers, speaker in ((expected, self._model), (answered, self._real)):
            for request_id, answer in sorted(answers.items()):
                speaker.hear(self._open[request_id].partition("/")[0], answer)
        while (described := self._described_by_broker()) != self._described_by_machine():
            if time.monotonic() > deadline_s:
                break
        answered |= self._clients.receive(0)
        ours = [*self._in_words(expected, self._model), self._described_by_machine()]
        theirs = [*self._in_words(answered, self._real), described]
        self._transcript += [f"    {words}" for words in theirs]
        if ours != theirs:
            self._transcript += ["but the machine:", *ours]
        self._undisturbed_now_ms(_TIMER_GUARD_MS)
        if ours != theirs:
            raise AssertionError("\n".join(self._transcript))
        for request_id in expected:
            del self._open[request_id]

    def _deadline_s(self) -> float:
        """Returns how long to wait for the broker: not beyond the machine's own next timer."""
        wake_ms = self.machine.next_wake_ms()
        soon_s = _PATIENCE_S if wake_ms is None else self._began_s + wake_ms / 1000 - time.monotonic()
        return time.monotonic() + min(_PATIENCE_S, soon_s)

    def _in_words(self, answers: dict[int, Answer], speaker: Speaker) -> list[str]:
        return [f"{self._open[i]}: {speaker.words(answer)}" for i, answer in sorted(answers.items())]

    def _described_by_machine(self) -> str:
        ((_, described),) = self.machine.handle(0, DescribeGroup("inspector"), self._clock_ms)
        return self._model.words(described)

    def _described_by_broker(self) -> str:
        described = self._clients.describe()
        self._real.see(described)
        return self._real.words(described)

    # --- clock and choice ----------------------------------------------------------------------------

    def _undisturbed_now_ms(self, guard_ms: int = 0) -> int:
        """The time; it stands still while ahead of the real clock. Raises Disturbed if a timer has
        expired."""
        self._clock_ms = max(self._clock_ms, self._real_ms(time.monotonic()))
        wake_ms = self.machine.next_wake_ms()
        if wake_ms is not None and wake_ms <= self._clock_ms + guard_ms:
            raise Disturbed("\n".join(self._transcript))
        return self._clock_ms

    def _real_ms(self, monotonic_s: float) -> int:
        return round((monotonic_s - self._began_s) * 1000)

    def _as_java(self, candidates: Sequence[str]) -> str:
        """A HashMap's first key, with these inserted in order. ``candidates`` are the machine's."""
        return min(candidates, key=lambda key: _bucket(self._real.id_of(self._model.name(key), key)))


def _bucket(key: str) -> int:
    """The bucket of a key in a HashMap with at most 12 keys."""
    hashed = 0
    for character in key:
        hashed = (31 * hashed + ord(character)) & 0xFFFFFFFF
    return (hashed ^ (hashed >> 16)) & 15
