"""The machine says what a real broker says: each conversation is held with both at once.

Many run in parallel, since they wait a lot; each test reports how its own has ended.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from itertools import count
from random import Random

import pytest

from cooperator.group import GroupState
from tests.simulation.broker.chance import talk
from tests.simulation.broker.conversation import Conversation, Disturbed
from tests.simulation.broker.group import Group
from tests.simulation.broker.real import RealBroker
from tests.simulation.broker.record import record_of
from tests.simulation.broker.script import parse
from tests.simulation.broker.scripts.limits import SIZE, TIME
from tests.simulation.broker.scripts.members import LEAVING, STATIC
from tests.simulation.broker.scripts.restarts import ACROSS_A_RESTART, IN_AN_EMPTY_GROUP, RESTART
from tests.simulation.broker.scripts.rounds import PENDING, PROTOCOLS, ROUNDS
from tests.simulation.broker.settings import BrokerSettings

pytestmark = pytest.mark.real

SETTINGS = BrokerSettings(initial_rebalance_delay_ms=0, min_session_timeout_ms=1_000, max_record_bytes=20_000)
"""Small, because conversations wait for these times."""
IN_NO_HURRY = replace(SETTINGS, initial_rebalance_delay_ms=1_500, clean_up_interval_ms=4_000)
STRETCHES = (1, 2, 4, 8)
"""Factors for time-outs, tried in order until this computer is fast enough."""
SIDE_BY_SIDE = 16

Hold = Callable[[Conversation], None]
Outcomes = Mapping[str, "Future[None]"]


def scripted(script: str) -> Hold:
    return lambda conversation: conversation.hold(parse(script, conversation.stretch))


def by_chance(seed: int, steps: int, rebalance_timeout_ms: int = 60_000) -> Hold:
    return lambda conversation: talk(conversation, Random(seed), steps, rebalance_timeout_ms)


def at_the_limit(conversation: Conversation) -> None:
    """At the size limit of a record, one byte more is too much."""
    conversation.hold(parse("a enters"))
    room = SETTINGS.max_record_bytes - record_of(group_of(conversation), {}).size_bytes
    conversation.hold(parse(f"a syncs a=x*{room}"))
    assert group_of(conversation).state is GroupState.STABLE
    conversation.hold(parse(f"a joins\na syncs a=x*{room + 1}"))
    assert group_of(conversation).state is GroupState.PREPARING


def group_of(conversation: Conversation) -> Group:
    assert conversation.machine.group is not None
    return conversation.machine.group


SCRIPTS = ROUNDS | PENDING | PROTOCOLS | STATIC | LEAVING | TIME | SIZE
AT_ONCE: dict[str, Hold] = {
    **{name: scripted(script) for name, script in SCRIPTS.items()},
    "a record at the limit of its size": at_the_limit,
    **{f"by chance {seed}": by_chance(seed, steps=50) for seed in range(48)},
    **{f"by chance, in time {seed}": by_chance(seed, 30, 2_000) for seed in range(16)},
}


def in_two_parts(scripts: Mapping[str, str]) -> dict[str, tuple[Hold, Hold]]:
    parts = {name: script.partition(RESTART) for name, script in scripts.items()}
    return {name: (scripted(before), scripted(after)) for name, (before, _, after) in parts.items()}


ACROSS = {
    **in_two_parts(ACROSS_A_RESTART),
    **{f"by chance {seed}": (by_chance(seed, 25), by_chance(seed + 1, 25)) for seed in range(16)},
}
IN_EMPTY_GROUPS = in_two_parts(IN_AN_EMPTY_GROUP)

GROUP_IDS = (f"g{number:09d}" for number in count())
"""As long as the machine's records assume."""


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealBroker]:
    broker = RealBroker(tmp_path_factory.mktemp("broker"), SETTINGS)
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture(scope="module")
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(SIDE_BY_SIDE) as threads:
        yield threads
        threads.shutdown(cancel_futures=True)


@pytest.fixture(scope="module")
def at_once(real: RealBroker, threads: ThreadPoolExecutor) -> Outcomes:
    return {name: threads.submit(held, real, hold) for name, hold in AT_ONCE.items()}


@pytest.fixture(scope="module")
def across(real: RealBroker, threads: ThreadPoolExecutor, at_once: Outcomes) -> Outcomes:
    wait(at_once.values())
    return held_across_a_restart(real, threads, ACROSS, SETTINGS)


@pytest.fixture(scope="module")
def in_empty_groups(real: RealBroker, threads: ThreadPoolExecutor, across: Outcomes) -> Outcomes:
    return held_across_a_restart(real, threads, IN_EMPTY_GROUPS, IN_NO_HURRY)


def held(broker: RealBroker, hold: Hold) -> None:
    """Raises what the conversation raises, and Disturbed if it cannot be held undisturbed."""
    for stretch in STRETCHES:
        conversation = Conversation(broker, next(GROUP_IDS), stretch)
        try:
            return hold(conversation)
        except Disturbed:
            if stretch == STRETCHES[-1]:
                raise
        finally:
            conversation.close()
    raise AssertionError


def held_across_a_restart(
    broker: RealBroker,
    threads: ThreadPoolExecutor,
    parts: Mapping[str, tuple[Hold, Hold]],
    settings: BrokerSettings,
) -> Outcomes:
    """One restart for all; ``settings`` apply from then on. Disturbed ones are repeated with another."""
    outcomes: dict[str, Future[None]] = {}
    for stretch in STRETCHES:
        again = [name for name in parts if name not in outcomes or disturbed(outcomes[name])]
        if again and broker.settings != SETTINGS:
            broker.restart(SETTINGS)
        conversations = {name: Conversation(broker, next(GROUP_IDS), stretch) for name in again}
        outcomes |= {name: threads.submit(parts[name][0], conversations[name]) for name in again}
        wait(outcomes.values())
        going_on = [name for name in again if outcomes[name].exception() is None]
        if going_on:
            broker.restart(stretched(settings, stretch))
        for name in going_on:
            conversations[name].restarted()
            outcomes[name] = threads.submit(parts[name][1], conversations[name])
        wait(outcomes.values())
        for conversation in conversations.values():
            conversation.close()
    return outcomes


def disturbed(outcome: "Future[None]") -> bool:
    return isinstance(outcome.exception(), Disturbed)


def stretched(settings: BrokerSettings, stretch: int) -> BrokerSettings:
    return replace(
        settings,
        initial_rebalance_delay_ms=settings.initial_rebalance_delay_ms * stretch,
        clean_up_interval_ms=settings.clean_up_interval_ms * stretch,
    )


@pytest.mark.parametrize("name", AT_ONCE)
def test_the_machine_says_what_a_broker_says(name: str, at_once: Outcomes) -> None:
    at_once[name].result()


@pytest.mark.parametrize("name", ACROSS)
def test_across_a_restart(name: str, across: Outcomes) -> None:
    across[name].result()


@pytest.mark.parametrize("name", IN_EMPTY_GROUPS)
def test_in_an_empty_group(name: str, in_empty_groups: Outcomes) -> None:
    in_empty_groups[name].result()
