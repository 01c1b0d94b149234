"""Rules about what a connector does, looked at in its sink while its member's process lives, ends and dies.

One play for all of them, since processes are slow to start: what a scene finds is told under the rule that
it is about, and the play ends there, because what follows builds on it.
"""

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from cooperator.runtime.conformance.process import CONNECTOR, Failed, Life, Place
from cooperator.runtime.conformance.trial import Trial
from cooperator.runtime.connectors import delivery
from cooperator.runtime.connectors.base import Connector, Delivery
from cooperator.runtime.fence import DIRECTORY as FENCE
from cooperator.runtime.offsets import OffsetsError, Subject, alter, listed
from cooperator.runtime.options import resolved_options
from cooperator.runtime.references import Resolver

RULES: Mapping[str, str] = {
    "units": "Their ids are file names, differ, and are the same in every process.",
    "starts": "All units start.",
    "delivers": "What is fed is in the sink, once, and nothing else is.",
    "claims": "An attempt claims its unit's fence before it does anything.",
    "grows": "A new unit of the source is found while the others run, and is read.",
    "stops": "After stopped nothing is written any more.",
    "resumes": "Another process goes on where the first one stopped.",
    "survives": "After kill -9 in mid-stream nothing is missing.",
    "exact": "Who promises exactly once writes a batch once, also when it is given again.",
    "fenced": "An attempt of an older epoch is refused.",
    "offsets": "What is listed can be altered: it belongs to a unit, and to itself changes nothing.",
}

_FEW, _BACKLOG = 40, 200
_QUIET_S = 3.0
_SLICE_S = 0.1
_UNIT = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*\Z")


class Broken(Exception):
    """A rule is; the message says how, and what to do."""

    def __init__(self, rule: str, complaint: str) -> None:
        super().__init__(complaint)
        self.rule = rule


class Play:
    """``directory`` of the place and the trial's own are the author's to remove."""

    def __init__(self, connector: Connector[Any], trial: Trial, place: Place) -> None:
        self._connector = connector
        self._trial = trial
        self._place = place
        self._fed = 0
        config = {"units.refresh.interval.ms": "500", "tasks.max": "2", **trial.config()}
        self._config = {**config, "connector.class": trial.connector_class, "name": CONNECTOR}
        promised = delivery(trial.connector_class, self._config)
        self._is_exact = promised is not None and promised.level is Delivery.EXACTLY_ONCE

    def perform(self) -> None:
        """Raises Broken."""
        self._trial.prepare()
        self._feed(_FEW)
        with self._life(1) as life:
            self._units(life)
            with _rule("starts"):
                running = life.begin(self._config)
            with _rule("delivers"):
                self._complete(life, "delivers", once=True)
            with _rule("claims"):
                self._claims(running)
            with _rule("grows"):
                self._grows(life, running)
            with _rule("stops"):
                self._stops(life)
        self._offsets()
        self._given_again()
        with self._life(2) as life:
            with _rule("resumes"):
                life.begin(self._config)
                self._complete(life, "exact", once=self._is_exact)
            with _rule("survives"):
                self._feed(_BACKLOG)
                self._flowing(life)
            life.kill()
        with self._life(3) as life, _rule("survives"):
            life.begin(self._config)
            self._feed(_FEW)
            self._complete(life, "survives", once=self._is_exact)
            life.stop()
            with _rule("fenced"):
                self._fenced(life)

    # --- scenes ---

    def _units(self, life: Life) -> None:
        here = [*_here(self._connector, self._config, self._place)]
        with _rule("units"):
            there = life.units(self._config)
        if len(here) < 2:
            raise Broken(
                "units", f"the trial's source has {len(here)} after prepare(); let it have two or more"
            )
        if len(set(here)) < len(here):
            raise Broken("units", f"an id comes twice: {here}")
        if strange := [unit for unit in here if not _UNIT.match(unit)]:
            remedy = "use letters, digits, dot, underscore and dash: each has a directory of that name"
            raise Broken("units", f"{strange[0]!r} is no id; {remedy}")
        if here != there:
            remedy = "make ids, and their order, of what the source tells, not of hash(), sets or chance"
            raise Broken("units", f"one process tells {here[:5]}, another {there[:5]}; {remedy}")

    def _claims(self, running: list[list[str]]) -> None:
        for unit in (unit for units in running for unit in units):
            directory = self._place.checkpoints / CONNECTOR / unit / FENCE
            if not directory.is_dir() or not any(directory.iterdir()):
                remedy = "subclass SparkConnector, or begin open() with claim(context.checkpoint, …)"
                raise Broken("claims", f"unit {unit} runs without a claim; {remedy}")

    def _grows(self, life: Life, running: list[list[str]]) -> None:
        if not self._trial.grow():
            return
        before = {unit for units in running for unit in units}
        life.regroup(lambda groups: not {unit for units in groups for unit in units} <= before)
        life.stop()
        life.run()
        self._feed(_FEW)
        self._complete(life, "grows", once=self._is_exact)

    def _stops(self, life: Life) -> None:
        life.stop()
        before = self._found()
        self._feed(_FEW)
        quiet_until = time.monotonic() + _QUIET_S
        while time.monotonic() < quiet_until:
            if written := self._found() - before:
                remedy = "let stop() return when nothing of the unit runs any more"
                raise Broken("stops", f"{_some(written)} was written after all tasks had stopped; {remedy}")
            time.sleep(_SLICE_S)

    def _given_again(self) -> None:
        """As if each unit had died after its last batch, before that was recorded as done: it is given again,
        where checkpoints are kept as Spark keeps them."""
        for commits in (self._place.checkpoints / CONNECTOR).glob("*/commits"):
            numbers = [int(entry.name) for entry in commits.iterdir() if entry.name.isdigit()]
            if numbers:
                (commits / str(max(numbers))).unlink()
                (commits / f".{max(numbers)}.crc").unlink(missing_ok=True)

    def _flowing(self, life: Life) -> None:
        """Some of the backlog is in the sink, so a kill comes into the middle."""
        earlier = self._fed - _BACKLOG
        self._until(life, lambda: any(self._found()[_record(n)] for n in range(earlier, self._fed)))

    def _fenced(self, life: Life) -> None:
        life.generation = 1
        trace = life.refused()
        if trace is None:
            remedy = "give claim() the context's epoch, attempt and owner"
            raise Broken("fenced", f"an attempt of an older epoch was let run; {remedy}")
        if "Fenced" not in trace:
            raise Broken("fenced", f"an attempt of an older epoch failed, but not as Fenced: {trace.strip()}")

    def _offsets(self) -> None:
        source = self._connector.offsets()
        if source is None:
            return
        subject = Subject(
            name=CONNECTOR,
            class_name=self._trial.connector_class,
            config=self._config,
            group_id=self._place.group_id,
            checkpoints=self._place.checkpoints,
            resolver=Resolver({}, bootstrap_servers=self._place.bootstrap_servers),
        )
        with _rule("offsets"):
            try:
                entries = listed(subject)
                changes = alter(subject, entries, dry_run=True)
            except OffsetsError as error:
                raise Broken("offsets", f"what it lists itself is refused: {error}") from error
        if not entries:
            raise Broken("offsets", "nothing is listed, although all units have read something")
        if changes:
            raise Broken("offsets", f"altering what is listed to itself would change {changes[0]}")

    # --- records ---

    def _feed(self, count: int) -> None:
        records = [_record(number) for number in range(self._fed, self._fed + count)]
        self._fed += count
        self._trial.feed(records)

    def _found(self) -> Any:
        """What is in the sink; asked again while it cannot be read."""
        deadline = time.monotonic() + self._place.patience_s
        while True:
            try:
                return self._trial.found()
            except Exception as error:
                if time.monotonic() > deadline:
                    raise Failed(f"the trial cannot look into the sink: {error}") from error
                time.sleep(_SLICE_S)

    def _complete(self, life: Life, rule: str, *, once: bool) -> None:
        """Waits until all that was fed is there. ``once``: and no record twice, told under ``rule``."""
        wanted = {_record(number) for number in range(self._fed)}
        deadline = time.monotonic() + self._place.patience_s
        while missing := sorted(wanted - (found := self._found()).keys()):
            life.check()
            if time.monotonic() > deadline:
                raise Failed(
                    f"{len(missing)} of {len(wanted)} records are not in the sink after "
                    f"{self._place.patience_s:g} s, such as {missing[0]!r}"
                )
            time.sleep(_SLICE_S)
        if strange := found.keys() - wanted:
            raise Failed(f"{_some(strange)} is in the sink, and was never fed")
        if once and (twice := [record for record, count in found.items() if count > 1]):
            said = "although delivery() says ExactlyOnce" if rule != "delivers" else "although nothing failed"
            remedy = "make a batch's write one that can be repeated, or say AT_LEAST_ONCE"
            raise Broken(rule, f"{_some(twice)} is in the sink {found[min(twice)]} times, {said}; {remedy}")

    def _until(self, life: Life, condition: Any) -> None:
        deadline = time.monotonic() + self._place.patience_s
        while not condition():
            life.check()
            if time.monotonic() > deadline:
                raise Failed(f"nothing of what was fed is in the sink after {self._place.patience_s:g} s")
            time.sleep(_SLICE_S)

    def _life(self, generation: int) -> Life:
        return Life(self._place, generation)


@contextmanager
def _rule(name: str) -> Iterator[None]:
    """What fails inside breaks this rule, unless it was said already which."""
    try:
        yield
    except Failed as error:
        raise Broken(name, str(error)) from error


def _here(connector: Connector[Any], config: Mapping[str, str], place: Place) -> Iterator[str]:
    resolver = Resolver({}, bootstrap_servers=place.bootstrap_servers)
    options, _, _ = resolved_options(connector.options, config, resolver)
    yield from connector.units(options, lambda text: None)


def _record(number: int) -> str:
    return f"record {number}"


def _some(records: Any) -> str:
    others = len(records) - 1
    return f"{min(records)!r}{f' (and {others} more)' if others else ''}"
