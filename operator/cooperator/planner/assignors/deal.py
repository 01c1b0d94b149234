"""Deals the pool to members below their quota, each connector to those that have the least of it.

level, extras = the water level: the pool fills the least loaded members up to ``level``, and ``extras``
                of those that have reached it take one more
room(m)       = level + 1 − L(m): members with the most room are served first (as in Havel and Hakimi's
                algorithm), which leaves the most distinct members to later connectors
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain, filterfalse, repeat
from operator import itemgetter

from cooperator.model import TaskId
from cooperator.planner.assignors.running import Running
from cooperator.planner.problem import DealtInTurn


def water_level(loads: Iterable[int], pool: int) -> tuple[int, int]:
    """Return the level up to which ``pool`` units fill the lowest ``loads``, and the units left above it."""
    filled, count = 0, 0
    for load in sorted(loads):
        if load * count - filled > pool:
            break
        filled += load
        count += 1
    return divmod(filled + pool, count)


class Dealer:
    """Deals one pool.

    ``loads``: per identity, before the pool is dealt. ``running``: what each member has of each connector.
    ``of_other_kind``: decides which members take one more than the level.
    ``zones``: per member; a connector first goes to the zone that has the least of it.
    ``uneven``: connectors that dealing alone could not spread evenly.
    """

    def __init__(
        self,
        loads: Mapping[str, int],
        running: Running,
        of_other_kind: Mapping[str, int],
        zones: Mapping[str, str],
    ) -> None:
        self._loads, self._running, self._of_other_kind = loads, running, of_other_kind
        self._zones = {identity: zones.get(identity, "") for identity in loads}
        self._rooms: dict[int, list[str]] = {}
        self._extras = 0
        self._tie_broken = False
        self.uneven: list[str] = []

    def deal(self, groups: Mapping[str, Sequence[TaskId]]) -> Mapping[TaskId, str]:
        """Place the pool, which is grouped by connector in order of name."""
        sizes = dict(zip(groups, map(len, groups.values()), strict=True))
        pool = sum(sizes.values())
        self._measure(pool)
        zones = sorted(set(self._zones.values()))
        placed: dict[TaskId, str] = {}
        if len(zones) < 2:
            to_one = self._all_to_one(pool, groups)
            if to_one is not None:
                return to_one
            if not self._running.is_empty:
                placed = self._deal_what_one_lacks(groups, len(groups) == pool)
        # Connectors with items in place fit fewer members, and large ones need the most: they come first.
        done = set(map(itemgetter(0), placed))
        in_turn = list(filterfalse(done.__contains__, groups) if done else groups)
        if len(groups) < pool:
            in_turn.sort(key=sizes.__getitem__, reverse=True)
        occupied = self._running.occupied(in_turn)
        if occupied:
            in_turn.sort(key=lambda connector: connector not in occupied)
        elif len(zones) < 2:
            dealt = DealtInTurn(*self._deal_in_turn(in_turn, groups, sizes))
            if not (in_turn or placed):
                return dealt
            placed.update(dealt)
            if len(groups) == pool:
                placed.update(self._deal_singles(in_turn, groups))
        for connector in in_turn:
            items = groups[connector]
            if len(zones) < 2:
                chosen = self._choose(connector, len(items))
            else:
                chosen = self._choose_by_zone(connector, len(items), zones)
            placed.update(zip(items, chosen, strict=True))
        return placed

    def _deal_what_one_lacks(
        self, groups: Mapping[str, Sequence[TaskId]], all_single: bool
    ) -> dict[TaskId, str]:
        """Place connectors with one free item of which all members but one have an item: that member is the
        only place. They come first, as long as it has room below the level."""
        singles = groups if all_single else [c for c, items in groups.items() if len(items) == 1]
        lacking = self._running.lacking(list(singles))
        placed: dict[TaskId, str] = {}
        # The member that lacks the first connector comes first.
        for identity, connectors in sorted(lacking.items(), key=lambda found: found[1][0]):
            room = next((room for room, bucket in self._rooms.items() if identity in bucket), 0)
            count = min(len(connectors), room - 1)
            if count > 0:
                items = chain.from_iterable(map(groups.__getitem__, connectors[:count]))
                placed.update(zip(items, repeat(identity)))
                self._rooms[room].remove(identity)
                if not self._rooms[room]:
                    del self._rooms[room]
                self._rooms.setdefault(room - count, []).append(identity)
        return placed

    def _deal_in_turn(
        self, connectors: list[str], groups: Mapping[str, Sequence[TaskId]], sizes: Mapping[str, int]
    ) -> tuple[list[TaskId], list[str]]:
        """Do all round-robin passes at once, if nothing runs, all members have the same room, and as long as
        none exceeds the level. Returns the items and the members to deal them to in turn; removes their
        connectors from ``connectors``."""
        if len(self._rooms) != 1:
            return [], []
        [(room, members)] = self._rooms.items()
        if len(members) < len(self._loads):
            return [], []
        ends = list(accumulate(map(sizes.__getitem__, connectors)))
        done = bisect_right(ends, (room - 1) * len(members))
        items = list(chain.from_iterable(map(groups.__getitem__, connectors[:done])))
        del connectors[:done]
        laps, further = divmod(len(items), len(members))
        self._rooms = {room - laps: members[further:]}
        if further:
            self._rooms[room - laps - 1] = members[:further]
        return items, members

    def _deal_singles(
        self, connectors: list[str], groups: Mapping[str, Sequence[TaskId]]
    ) -> dict[TaskId, str]:
        """Serve all members with the most room at once, if nothing runs, every connector has one item, and as
        long as none exceeds the level. Removes the connectors dealt from ``connectors``."""
        chosen: list[str] = []
        left = len(connectors)
        while left and max(self._rooms, default=0) > 1:
            room = max(self._rooms)
            bucket = self._rooms.pop(room)
            served, waiting = bucket[:left], bucket[left:]
            if waiting:
                self._rooms[room] = waiting
            self._rooms.setdefault(room - 1, []).extend(served)
            chosen += served
            left -= len(served)
        dealt = {groups[c][0]: i for c, i in zip(connectors, chosen, strict=False)}
        del connectors[: len(chosen)]
        return dealt

    def _all_to_one(self, pool: int, groups: Mapping[str, Sequence[TaskId]]) -> DealtInTurn | None:
        """Deal everything to the only member with room, if there is just one."""
        alone = self._only_one_with_room(pool)
        if alone is None:
            return None
        suspects: Iterable[str] = groups
        if not self._running.has_any(alone):
            suspects = {connector for connector, items in groups.items() if len(items) > 1}
            suspects |= self._running.several & groups.keys()
        for connector in suspects:
            self._take_note(connector, self._running.of(connector) or {}, alone, len(groups[connector]))
        return DealtInTurn(list(chain.from_iterable(groups.values())), [alone])

    def _measure(self, pool: int) -> None:
        level, self._extras = water_level(self._loads.values(), pool)
        for identity in sorted(self._loads, key=self._precedence):
            room = level + 1 - self._loads[identity]
            if room > 0:
                self._rooms.setdefault(room, []).append(identity)

    def _precedence(self, identity: str) -> tuple[int, str]:
        return self._of_other_kind.get(identity, 0), identity

    def _choose(self, connector: str, wanted: int) -> list[str]:
        """Choose ``wanted`` members for one connector; a member repeats only if there is no other."""
        here = self._running.of(connector)
        allowed = 0
        alone = self._only_one_with_room(wanted)
        if alone is not None:
            self._take_note(connector, here or {}, alone, wanted)
            return [alone] * wanted
        if here is None:
            chosen = self._laps(wanted)
            allowed = len(chosen) // len(self._loads)
            here = dict.fromkeys(self._loads, allowed) if allowed else {}
            found = self._pass(wanted - len(chosen), here, allowed) if len(chosen) < wanted else []
            chosen += found
            if len(chosen) == wanted:
                return chosen
            for identity in found:
                here[identity] = allowed + 1
            allowed += 1
        else:
            chosen, here = [], dict(here)
        while len(chosen) < wanted:
            found = self._pass(wanted - len(chosen), here, allowed)
            for identity in found:
                here[identity] = here.get(identity, 0) + 1
            chosen += found
            allowed += 1
        least = min(here.values()) if len(here) == len(self._loads) else 0
        if max(here.values()) > least + 1:
            self.uneven.append(connector)
        return chosen

    def _take_note(self, connector: str, here: Mapping[str, int], alone: str, wanted: int) -> None:
        """Note ``connector`` as uneven if it is once ``alone`` has ``wanted`` more of it than ``here``."""
        counts = {**here, alone: here.get(alone, 0) + wanted}.values()
        most = max(counts)
        if most > 1:
            least = min(counts) if len(counts) == len(self._loads) else 0
            if most > least + 1:
                self.uneven.append(connector)

    def _only_one_with_room(self, wanted: int) -> str | None:
        """Return the member that gets all ``wanted`` since no other has room now; None if there is none."""
        others = len(self._rooms) - 1
        if others > 1 or (others and (self._extras or min(self._rooms) > 1)):
            return None
        room = max(self._rooms)
        if len(self._rooms[room]) > 1 or room <= wanted:
            return None
        [identity] = self._rooms.pop(room)
        self._rooms.setdefault(room - wanted, []).append(identity)
        return identity

    def _laps(self, wanted: int) -> list[str]:
        """Choose every member once per lap, for as many laps as keep all within the level."""
        laps = wanted // len(self._loads)
        if not laps or sum(map(len, self._rooms.values())) < len(self._loads):
            return []
        laps = min(laps, min(self._rooms) - 1)
        if laps < 1:
            return []
        in_turn = [identity for room in sorted(self._rooms, reverse=True) for identity in self._rooms[room]]
        self._rooms = {room - laps: bucket for room, bucket in self._rooms.items()}
        return in_turn * laps

    def _choose_by_zone(self, connector: str, wanted: int, zones: Sequence[str]) -> list[str]:
        """Like ``_choose``, but one by one from the zone with the least of the connector that has room."""
        here = dict(self._running.of(connector) or {})
        in_zone = dict.fromkeys(zones, 0)
        for identity, count in here.items():
            in_zone[self._zones[identity]] += count
        chosen: list[str] = []
        while len(chosen) < wanted:
            levels = range(max(here.values(), default=0) + 1)
            tries = (
                (zone, allowed) for zone in sorted(zones, key=lambda z: (in_zone[z], z)) for allowed in levels
            )
            identity = next(found for zone, allowed in tries for found in self._pass(1, here, allowed, zone))
            here[identity] = here.get(identity, 0) + 1
            in_zone[self._zones[identity]] += 1
            chosen.append(identity)
        if max(in_zone.values()) > min(in_zone.values()) + 1 or max(here.values()) > 1:
            self.uneven.append(connector)
        return chosen

    def _pass(self, wanted: int, here: Mapping[str, int], allowed: int, zone: str | None = None) -> list[str]:
        """Choose up to ``wanted`` distinct members with room (in ``zone``) that have at most ``allowed``
        items of the connector."""
        chosen: list[str] = []
        served: list[tuple[int, list[str]]] = []
        for room in sorted(self._rooms, reverse=True):
            bucket = self._rooms[room]
            most = wanted - len(chosen)
            if room == 1:
                most = min(most, self._extras)
                self._break_ties(bucket)
            found = self._from(bucket, most, here, allowed, zone)
            if not bucket:
                del self._rooms[room]
            if room == 1:
                self._extras -= len(found)
            elif found:
                served.append((room - 1, found))
            chosen += found
            if len(chosen) == wanted:
                break
        for room, found in served:
            self._rooms.setdefault(room, []).extend(found)
        return chosen

    def _from(
        self, bucket: list[str], most: int, here: Mapping[str, int], allowed: int, zone: str | None
    ) -> list[str]:
        """Take up to ``most`` from the front of ``bucket``."""
        if not here and zone is None:
            first = bucket[:most]
            del bucket[:most]
            return first
        found: list[str] = []
        passed: list[str] = []
        for identity in bucket:
            if len(found) == most:
                break
            fits = here.get(identity, 0) <= allowed and zone in (None, self._zones[identity])
            (found if fits else passed).append(identity)
        bucket[: len(found) + len(passed)] = passed
        return found

    def _break_ties(self, bucket: list[str]) -> None:
        """Once all members are at the level, order them by their load of the other kind: the first take
        one more."""
        if not self._tie_broken and len(self._rooms) == 1:
            bucket.sort(key=self._precedence)
            self._tie_broken = True
