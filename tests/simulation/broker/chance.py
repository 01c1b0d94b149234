"""Random conversations: each step follows from a seed and from the group's state.

A failure is a script: its transcript, without the indented lines, replays it (except that the choice of the
leader may depend on the ids that the broker makes).
"""

import random

from cooperator.group import GroupState
from tests.simulation.broker.conversation import Conversation
from tests.simulation.broker.script import parse

_DYNAMIC = ("a", "b", "c")
_STATIC = ("s", "t")
_OFFERS = ("sessioned,compatible,default", "compatible,sessioned,default", "sessioned", "default,sessioned")


def talk(conversation: Conversation, chance: random.Random, steps: int, rebalance_timeout_ms: int) -> None:
    """Raises as the conversation does."""
    for client in (*_DYNAMIC, *_STATIC):
        if chance.random() < 0.5:
            conversation.hold(
                parse(f"{client} joins {_settled(client, rebalance_timeout_ms)}", conversation.stretch)
            )
    for _ in range(steps):
        client = chance.choice(_DYNAMIC + _STATIC)
        settled = _settled(client, rebalance_timeout_ms)
        conversation.hold(parse(_next(conversation, chance, client, settled), conversation.stretch))


def _settled(client: str, rebalance_timeout_ms: int) -> str:
    return f"as={client if client in _STATIC else ''} rebalance={rebalance_timeout_ms}"


def _next(conversation: Conversation, chance: random.Random, client: str, settled: str) -> str:
    free = _free_connection(conversation, client)
    if chance.random() < 0.6:
        return _onward(conversation, client, free, settled)
    if conversation.soon and chance.random() < 0.1:
        return "time passes"
    others = " ".join(_named(chance) for _ in range(chance.randint(1, 3)))
    return chance.choice(
        [
            f"{free} joins {settled}",
            f"{free} joins {settled} says={client}{chance.randint(1, 9)}",
            f"{free} joins {settled} offers={chance.choice(_OFFERS)}",
            f"{client} forgets\n{free} joins {settled}",
            f"{client} hangs up",
            f"{free} syncs",
            f"{free} syncs gen={chance.randint(0, 3)}",
            f"{free} syncs a=x*30000",
            f"{free} beats",
            f"{free} beats id={chance.choice(_DYNAMIC + _STATIC)}",
            f"{free} leaves",
            f"x removes {others}",
        ]
    )


def _onward(conversation: Conversation, client: str, free: str, settled: str) -> str:
    """The next step of a well-behaved client."""
    group = conversation.machine.group
    if client != free:
        return f"{free} beats"
    if group is not None and group.state is GroupState.COMPLETING:
        return f"{client} syncs"
    if group is not None and group.state is GroupState.STABLE and conversation.is_member(client):
        return f"{client} beats"
    return f"{client} joins {settled}"


def _named(chance: random.Random) -> str:
    client, static = chance.choice(_DYNAMIC + _STATIC), chance.choice(_STATIC)
    return chance.choice([client, client, f"{client}@{static}", f"@{static}", f"{static}@{static}"])


def _free_connection(conversation: Conversation, client: str) -> str:
    connections = [client, *(f"{client}/{number}" for number in range(2, 100))]
    return next(c for c in connections if c not in conversation.waiting)
