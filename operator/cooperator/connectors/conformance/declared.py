"""Rules about what a class declares, checked without running anything."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from cooperator.connectors.base import Connector, Delivered, Delivery
from cooperator.connectors.conformance.trial import Trial
from cooperator.connectors.options import OptionError, Options, Problem, check, option_names, parse
from cooperator.connectors.references import contains_reference
from cooperator.model.text import counted

_NAME = re.compile(r"[a-z0-9]+([._-][a-z0-9]+)*(\.\*)?\Z")
_SECRET = re.compile(r"(?!.*\.(url|location)\Z).*(password|secret|token|credential|private)")
"""Names of secrets; a place where one is to be had is none."""
_UNKNOWN = "no.such.option"
_MARK = "v4lue-that-no-error-repeats"


def options(connector: Connector[Any], trial: Trial) -> Iterator[str]:
    """Every option has a name and describes its values; secrets are marked; errors never repeat a value."""
    declared = connector.options
    for field, info in declared.model_fields.items():
        if info.alias is None:
            yield f"field {field!r} has no name; declare it with option(…)"
            continue
        if not _NAME.match(info.alias):
            yield f"option {info.alias!r}: use lower case with dots, such as max.rows"
        if not (info.description or "").strip():
            yield f"option {info.alias!r} does not describe its values; fill in expected="
        if _SECRET.match(info.alias) and info.alias not in option_names(declared, "secret"):
            yield f"option {info.alias!r} looks like a secret; declare it with secret=True"
    for name in option_names(declared):
        for problem in _problems(declared, {**trial.config(), name: _MARK}):
            if _MARK in f"{problem.problem} {problem.remedy}":
                yield (
                    f"option {name!r}: its error repeats the value ({problem.problem}; {problem.remedy}); "
                    "remove it, since it may be a secret; the runtime adds it where that is safe"
                )


def accepts(connector: Connector[Any], trial: Trial) -> Iterator[str]:
    """The trial's configuration is accepted; errors name missing and unknown options."""
    declared = connector.options
    config = _with_class(trial)
    for problem in _problems(declared, config):
        yield f"the trial's own configuration is refused: {problem}"
    if all(problem.option != _UNKNOWN for problem in _problems(declared, {**config, _UNKNOWN: "1"})):
        yield "an unknown option is accepted; keep extra='forbid' in model_config"
    for name, info in option_names(declared).items():
        if info.is_required() and name in trial.config():
            rest = {other: value for other, value in config.items() if other != name}
            if all(problem.option != name for problem in _problems(declared, rest)):
                yield f"no error names the missing required option {name!r}"


def refuses(connector: Connector[Any], trial: Trial) -> Iterator[str]:
    """The trial's invalid changes are refused before anything runs, and the error names the option."""
    for change, option in trial.refused():
        problems = _problems(connector.options, {**_with_class(trial), **change})
        if not problems:
            yield f"{dict(change)} is accepted; refuse it in a validator with raise refuse(…)"
        elif all(problem.option != option for problem in problems):
            named = ", ".join(sorted({problem.option for problem in problems}))
            yield f"the error about {dict(change)} names {named or 'no option'}, not {option!r}"


def delivery(connector: Connector[Any], trial: Trial) -> Iterator[str]:
    """The delivery guarantee is declared, with its conditions as a sentence."""
    promised: object = connector.delivery(_parsed(connector, trial))
    if not isinstance(promised, Delivered) or not isinstance(promised.level, Delivery):
        yield f"delivery() returns {promised!r}; return Delivered(Delivery.…, note)"
    elif not promised.note.strip().endswith("."):
        yield f"the note of delivery() is {promised.note!r}; write a sentence for the Connector's users"


def groups(connector: Connector[Any], trial: Trial) -> Iterator[str]:
    """Units are grouped into at most the given number of tasks: each unit in exactly one, no task empty."""
    for count, tasks_max in ((1, 1), (1, 4), (5, 2), (7, 3), (3, 10), (0, 2)):
        units = [f"unit-{number}" for number in range(count)]
        found = connector.groups(units, tasks_max)
        what = f"groups() returns {found} for {counted(count, 'unit')} and {counted(tasks_max, 'task')}"
        if sorted(unit for group in found for unit in group) != sorted(units):
            yield f"{what}: put each unit into exactly one task"
        elif len(found) > tasks_max or not all(found):
            yield f"{what}: return at most {counted(tasks_max, 'task')}, each with units"
        elif connector.groups(units, tasks_max, found) != found:
            yield f"{what}, and others when given these as the earlier ones: move nothing without need"


Rule = Callable[[Connector[Any], Trial], Iterator[str]]
RULES: Mapping[str, Rule] = {
    "options": options,
    "accepts": accepts,
    "refuses": refuses,
    "delivery": delivery,
    "groups": groups,
}


def _with_class(trial: Trial) -> dict[str, str]:
    return {"connector.class": trial.connector_class, **trial.config()}


def _problems(declared: type[Options], config: Mapping[str, str]) -> Sequence[Problem]:
    return check(declared, {"connector.class": "any", **config})


def _parsed(connector: Connector[Any], trial: Trial) -> Any:
    """Parses the options, without those that have references where possible."""
    config = {name: value for name, value in _with_class(trial).items() if not contains_reference(value)}
    try:
        return parse(connector.options, config)
    except OptionError:
        return parse(connector.options, _with_class(trial))
