"""Rules about a connector's behaviour, checked in its sink while its member's process runs, ends and dies.

All rules share one run, since processes are slow to start: each step reports a problem under its rule, and
the run ends there, because later steps build on it.
"""

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from cooperator.connectors import delivery
from cooperator.connectors.base import Connector, Delivery
from cooperator.connectors.conformance.process import CONNECTOR, MemberProcess, Place, UnitFailed
from cooperator.connectors.conformance.trial import Trial
from cooperator.connectors.fence import DIRECTORY as FENCE
from cooperator.connectors.offset_operations import Subject, alter, listed
from cooperator.connectors.offsets import OffsetsError
from cooperator.connectors.options import resolved_options
from cooperator.connectors.references import Resolver
from cooperator.connectors.tasks import LoopingConnector, TaskConnector
from cooperator.model.text import counted

RULES: Mapping[str, str] = {
    "units": "Unit ids are valid file names, distinct, and the same in every process.",
    "starts": "All units start.",
    "delivers": "Every record that was fed is in the sink once, and nothing else is.",
    "claims": "An attempt claims its unit's fence before it does anything else.",
    "grows": "A new unit of the source is found and read while the others run.",
    "stops": "After ``stopped``, the unit writes nothing.",
    "resumes": "Another process continues where the first one stopped.",
    "survives": "After kill -9 in mid-stream no record is missing.",
    "exact": "A class that declares exactly once writes a batch once, even if the batch is repeated.",
    "fenced": "An attempt of an older epoch is refused.",
    "offsets": "Listed offsets belong to units, and altering them to themselves changes nothing.",
}

_FEW, _BACKLOG = 40, 200
_QUIET_S = 3.0
_SLICE_S = 0.1
_UNIT = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*\Z")


class Broken(Exception):
    """A rule is broken; the message gives the problem and the remedy."""

    def __init__(self, rule: str, complaint: str) -> None:
        super().__init__(complaint)
        self.rule = rule


class Play:
    """Runs all steps. The caller removes the place's ``directory`` and the trial's own."""

    def __init__(self, connector: Connector[Any], trial: Trial, place: Place) -> None:
        self._connector = connector
        self._trial = trial
        self._place = place
        self._fed = 0
        config = {"units.refresh.interval.ms": "500", "tasks.max": "2", **trial.config()}
        self._config = {**config, "connector.class": trial.connector_class, "name": CONNECTOR}
        # References stay in what members get: what the class declares may depend on their values.
        promised = delivery(trial.connector_class, _resolver(place).resolve(self._config).config)
        self._is_exact = promised is not None and promised.level is Delivery.EXACTLY_ONCE

    def perform(self) -> None:
        """Runs the steps; raises ``Broken``."""
        self._trial.prepare()
        self._feed(_FEW)
        with self._incarnation(1) as incarnation:
            self._units(incarnation)
            with _rule("starts"):
                running = incarnation.begin(self._config)
            with _rule("delivers"):
                self._complete(incarnation, "delivers", once=True)
            with _rule("claims"):
                self._claims(running)
            with _rule("grows"):
                self._grows(incarnation, running)
            with _rule("stops"):
                self._stops(incarnation)
        self._offsets()
        self._given_again()
        with self._incarnation(2) as incarnation:
            with _rule("resumes"):
                incarnation.begin(self._config)
                self._complete(incarnation, "exact", once=self._is_exact)
            with _rule("survives"):
                self._feed(_BACKLOG)
                self._flowing(incarnation)
            incarnation.kill()
        with self._incarnation(3) as incarnation, _rule("survives"):
            incarnation.begin(self._config)
            self._feed(_FEW)
            self._complete(incarnation, "survives", once=self._is_exact)
            incarnation.stop()
            with _rule("fenced"):
                self._fenced(incarnation)

    # --- steps ---

    def _units(self, incarnation: MemberProcess) -> None:
        here = [*_here(self._connector, self._config, self._place)]
        with _rule("units"):
            there = incarnation.units(self._config)
        if len(here) < 2:
            raise Broken(
                "units",
                f"the trial's source has {counted(len(here), 'unit')} after prepare(); create at least two",
            )
        if len(set(here)) < len(here):
            raise Broken("units", f"duplicate ids: {here}")
        if strange := [unit for unit in here if not _UNIT.match(unit)]:
            remedy = "use letters, digits, dot, underscore and dash: ids are names of directories"
            raise Broken("units", f"{strange[0]!r} is not a valid id; {remedy}")
        if here != there:
            remedy = "derive ids and their order from the source, not from hash(), sets or random numbers"
            raise Broken("units", f"one process returns {here[:5]}, another {there[:5]}; {remedy}")

    def _claims(self, running: list[list[str]]) -> None:
        if isinstance(self._connector, TaskConnector | LoopingConnector):
            return  # Its claims are in the sink, and the rule ``fenced`` shows that they hold.
        for unit in (unit for units in running for unit in units):
            directory = self._place.checkpoints / CONNECTOR / unit / FENCE
            if not directory.is_dir() or not any(directory.iterdir()):
                remedy = "subclass SparkConnector, or begin open() with claim(context.checkpoint, …)"
                raise Broken("claims", f"unit {unit} runs without a claim; {remedy}")

    def _grows(self, incarnation: MemberProcess, running: list[list[str]]) -> None:
        if not self._trial.grow():
            return
        before = {unit for units in running for unit in units}
        incarnation.regroup(lambda groups: not {unit for units in groups for unit in units} <= before)
        incarnation.stop()
        incarnation.run()
        self._feed(_FEW)
        self._complete(incarnation, "grows", once=self._is_exact)

    def _stops(self, incarnation: MemberProcess) -> None:
        incarnation.stop()
        before = self._found()
        self._feed(_FEW)
        quiet_until = time.monotonic() + _QUIET_S
        while time.monotonic() < quiet_until:
            if written := self._found() - before:
                remedy = "return from stop() only when no part of the unit is running"
                raise Broken("stops", f"{_some(written)} was written after all tasks had stopped; {remedy}")
            time.sleep(_SLICE_S)

    def _given_again(self) -> None:
        """Makes each unit repeat its last batch, as if it had died before the batch was recorded as done.

        This works where checkpoints have Spark's format.
        """
        for commits in (self._place.checkpoints / CONNECTOR).glob("*/commits"):
            numbers = [int(entry.name) for entry in commits.iterdir() if entry.name.isdigit()]
            if numbers:
                (commits / str(max(numbers))).unlink()
                (commits / f".{max(numbers)}.crc").unlink(missing_ok=True)

    def _flowing(self, incarnation: MemberProcess) -> None:
        """Waits until some of the backlog is in the sink, so that a kill comes in mid-stream."""
        earlier = self._fed - _BACKLOG
        self._until(incarnation, lambda: any(self._found()[_record(n)] for n in range(earlier, self._fed)))

    def _fenced(self, incarnation: MemberProcess) -> None:
        incarnation.generation = 1
        trace = incarnation.refused()
        if trace is None:
            remedy = "pass the context's epoch, attempt and owner to claim()"
            raise Broken("fenced", f"an attempt of an older epoch was allowed to run; {remedy}")
        if not any(name in trace for name in ("Fenced", "Replaced")):
            raise Broken(
                "fenced", f"an attempt of an older epoch failed, but not with Fenced: {trace.strip()}"
            )

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
            resolver=_resolver(self._place),
        )
        with _rule("offsets"):
            try:
                entries = listed(subject)
                changes = alter(subject, entries, dry_run=True)
            except OffsetsError as error:
                raise Broken("offsets", f"the listed offsets are refused: {error}") from error
        if not entries:
            raise Broken("offsets", "no offsets are listed, although all units have read something")
        if changes:
            raise Broken("offsets", f"altering the listed offsets to themselves would change {changes[0]}")

    # --- records ---

    def _feed(self, count: int) -> None:
        records = [_record(number) for number in range(self._fed, self._fed + count)]
        self._fed += count
        self._trial.feed(records)

    def _found(self) -> Any:
        """Returns what is in the sink; retries while it cannot be read."""
        deadline = time.monotonic() + self._place.patience_s
        while True:
            try:
                return self._trial.found()
            except Exception as error:
                if time.monotonic() > deadline:
                    raise UnitFailed(f"the trial cannot read the sink: {error}") from error
                time.sleep(_SLICE_S)

    def _complete(self, incarnation: MemberProcess, rule: str, *, once: bool) -> None:
        """Waits until all fed records are in the sink. With ``once``, reports duplicates under ``rule``."""
        wanted = {_record(number) for number in range(self._fed)}
        deadline = time.monotonic() + self._place.patience_s
        while missing := sorted(wanted - (found := self._found()).keys()):
            incarnation.check()
            if time.monotonic() > deadline:
                raise UnitFailed(
                    f"{len(missing)} of {len(wanted)} records are not in the sink after "
                    f"{self._place.patience_s:g} s, such as {missing[0]!r}"
                )
            time.sleep(_SLICE_S)
        if strange := found.keys() - wanted:
            raise UnitFailed(f"{_some(strange)} is in the sink, but was never fed")
        if once and (twice := [record for record, count in found.items() if count > 1]):
            said = (
                "although delivery() declares ExactlyOnce"
                if rule != "delivers"
                else "although nothing failed"
            )
            remedy = "make the write of a batch idempotent, or declare AT_LEAST_ONCE"
            raise Broken(rule, f"{_some(twice)} is in the sink {found[min(twice)]} times, {said}; {remedy}")

    def _until(self, incarnation: MemberProcess, condition: Any) -> None:
        deadline = time.monotonic() + self._place.patience_s
        while not condition():
            incarnation.check()
            if time.monotonic() > deadline:
                raise UnitFailed(f"no record that was fed is in the sink after {self._place.patience_s:g} s")
            time.sleep(_SLICE_S)

    def _incarnation(self, generation: int) -> MemberProcess:
        return MemberProcess(self._place, generation)


@contextmanager
def _rule(name: str) -> Iterator[None]:
    """Reports failures inside under this rule, unless another rule was reported already."""
    try:
        yield
    except UnitFailed as error:
        raise Broken(name, str(error)) from error


def _here(connector: Connector[Any], config: Mapping[str, str], place: Place) -> Iterator[str]:
    options, _, _ = resolved_options(connector.options, config, _resolver(place))
    yield from connector.units(options, lambda text: None)


def _resolver(place: Place) -> Resolver:
    """Resolves what the member's process resolves, files anywhere included."""
    return Resolver({}, allowed_files=("/",), bootstrap_servers=place.bootstrap_servers)


def _record(number: int) -> str:
    return f"record {number}"


def _some(records: Any) -> str:
    others = len(records) - 1
    return f"{min(records)!r}{f' (and {others} more)' if others else ''}"
