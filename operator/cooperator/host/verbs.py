"""Verbs that change the state of connectors: the same for a cluster and for this machine."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from cooperator.crd.connector import State

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Verb:
    """``about``: the command's help."""

    name: str
    state: State
    about: str


PAUSE: Final = Verb(
    "pause", State.PAUSED, "Pause connectors: they read and write nothing; their tasks stay assigned."
)
RESUME: Final = Verb(
    "resume", State.RUNNING, "Resume paused or stopped connectors. They continue where they left off."
)
STOP: Final = Verb(
    "stop", State.STOPPED, "Have no tasks of connectors at all, until they are resumed. Checkpoints stay."
)
START: Final = Verb("start", State.RUNNING, "The same as resume: the opposite of stop.")


def into(
    state: State,
    namespace: str,
    names: Iterable[str],
    find: Callable[[str], T],
    state_of: Callable[[T], State],
    write: Callable[[str], object],
) -> Iterator[str]:
    """Put the connectors into ``state``; yields a sentence about each as soon as it is done.

    ``find`` raises when a connector does not exist: either all exist, or nothing is written.
    """
    found: Mapping[str, T] = {name: find(name) for name in dict.fromkeys(names)}
    for name, connector in found.items():
        before = state_of(connector)
        if before is state:
            yield f"Connector {namespace}/{name} is {state.value} already"
        else:
            write(name)
            yield f"Connector {namespace}/{name}: {before.value} -> {state.value}"
