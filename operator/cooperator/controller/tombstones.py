"""Deleted pods that are known to have ended, until the pool has taken note. Pure."""

from collections.abc import Iterable, Iterator, Mapping

from cooperator.controller.observe import Body, incarnation, phase
from cooperator.pool import Phase


class Tombstones:
    """An object that vanished after its container was reported to have terminated stands for that end until
    the pool asks for its removal, or a successor has its name."""

    def __init__(self) -> None:
        self._standing: dict[str, Body] = {}
        self._buried: set[str] = set()

    def see(self, pods: Iterable[Body], gone: Iterable[Body]) -> None:
        for body in gone:
            pod_incarnation = incarnation(body)
            if pod_incarnation not in self._buried and phase(body) is Phase.ENDED:
                self._standing[body["metadata"]["name"]] = body
        for body in pods:
            earlier = self._standing.pop(body["metadata"]["name"], None)
            if earlier is not None:
                self._buried.add(incarnation(earlier))

    def bury(self, pod_incarnation: str) -> None:
        self._buried.add(pod_incarnation)
        for name in [name for name, body in self._standing.items() if incarnation(body) == pod_incarnation]:
            del self._standing[name]

    def standing(self, pods: Mapping[str, Body]) -> Iterator[Body]:
        return (body for name, body in self._standing.items() if name not in pods)
