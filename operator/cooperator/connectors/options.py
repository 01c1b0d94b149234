"""Options of a connector: declared once, checked before anything runs, with helpful errors.

An options class is a pydantic model whose fields are named by ``option(...)``. Configurations are flat ``str
-> str`` maps as in Kafka Connect; a field's type and validators define its valid values.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    JsonValue,
    ValidationError,
    ValidationInfo,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from cooperator.connectors.references import (
    Resolved,
    Resolver,
    contains_reference,
    is_credential,
    misplaced_credentials,
)
from cooperator.model.text import did_you_mean, otherwise

O = TypeVar("O", bound="Options")  # noqa: E741


_URI = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:/")
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")
_PASSWORD = re.compile(r"(://[^:/?#]*:|[?&]password=)[^@&/]+")
_HIDDEN = "***"
_CHOICES = re.compile("'([^']*)'")
_MOST_PROBLEMS: Final = 20
_SHOWN: Final = 200
"""Upper limits of what errors tell: a hostile configuration has any number of problems of any length."""
_RUNNING: Final = "running"
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}\Z")


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem in a configuration, with its remedy. ``value`` is as written; None: the option is missing.

    ``OptionError`` cuts long values.
    """

    option: str
    value: str | None
    problem: str
    remedy: str

    def __str__(self) -> str:
        value = "" if self.value is None else f" = {self.value!r}"
        return f"option {self.option!r}{value}: {self.problem}; {self.remedy}"


class OptionError(ValueError):
    """The configuration is invalid; ``problems`` is never empty, and has the first 20 at most.

    ``passing``: it may become valid without a change, for example when the missing table is created.
    """

    def __init__(self, problems: Sequence[Problem], *, passing: bool = False) -> None:
        self.problems = tuple(map(_shortened, problems[:_MOST_PROBLEMS]))
        super().__init__("\n".join(str(problem) for problem in self.problems))
        self.passing = passing


def _shortened(problem: Problem) -> Problem:
    value = None if problem.value is None else _cut(problem.value)
    return replace(problem, option=_cut(problem.option), value=value)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def refuse(problem: str, remedy: str, option: str = "") -> PydanticCustomError:
    """Returns an error for validators: ``raise refuse("is empty", "name a directory")``.

    Validators of several options name the one at fault. Neither text may contain the value: it may be a
    resolved secret, while ``Problem.value`` shows the reference.
    """
    context = {"problem": problem, "remedy": remedy, **({"option": option} if option else {})}
    return PydanticCustomError("option", "{problem}", context)


def option(
    name: str,
    default: Any = ...,
    *,
    expected: str,
    fixed: bool = False,
    instance_only: bool = False,
    local_path: bool = False,
    secret: bool = False,
    goes_with: Sequence[str] = (),
    **constraints: Any,
) -> Any:
    """Declares a field that reads the option ``name``. ``expected`` completes "use …" in errors.

    ``fixed``: it cannot change as long as the connector's checkpoints exist. ``instance_only``: it concerns
    the connector's instance, so that changing it restarts no task. ``local_path``: it may be written relative
    to the manifest. ``secret``: it must be written as a reference, and no error shows its value.
    ``goes_with``: options that belong together; the default applies only where none of them is set.
    """
    extra: dict[str, JsonValue] = {
        "fixed": fixed,
        "instance_only": instance_only,
        "local_path": local_path,
        "secret": secret,
        "goes_with": list(goes_with),
    }
    return Field(default, alias=name, description=expected, json_schema_extra=extra, **constraints)


def _split(value: Any) -> Any:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


RELATIVE: Final = ("is relative", "write an absolute path, or a URI such as s3a://bucket/path")
"""A problem and its remedy: members have different working directories."""


def is_full_path(value: str) -> bool:
    """Whether the path means the same wherever a process is started."""
    return value.startswith("/") or _URI.match(value) is not None


def anchored(value: str, base: Path) -> str:
    """Makes a relative path absolute against ``base``. URIs and references stay as they are."""
    if not value or value.startswith("/") or _SCHEME.match(value) or contains_reference(value):
        return value
    return str((base / value).resolve())


PATTERN: Final = frozenset("*?[]{}\\")
IN_PATTERNS: Final = "has a character by which Spark reads it as a pattern (one of *?[]{}\\)"


def _full_path(value: str) -> str:
    if not is_full_path(value):
        raise refuse(*RELATIVE)
    if not PATTERN.isdisjoint(value):
        raise refuse(IN_PATTERNS, "name one directory, and rename it if its name has such a character")
    return value.rstrip("/") or "/"


def _local_file(value: str) -> str:
    if value and not value.startswith("/") and not contains_reference(value):
        raise refuse("is relative", "write an absolute path: members have different working directories")
    return value


def is_topic_name(value: str) -> bool:
    return _TOPIC.match(value) is not None and value not in (".", "..")


def _topic(value: str) -> str:
    if not is_topic_name(value):
        raise refuse(
            "is not a valid topic name", "use up to 249 letters, digits, dots, underscores and dashes"
        )
    return value


Names = Annotated[tuple[str, ...], BeforeValidator(_split)]
"""A list, separated by commas."""
FullPath = Annotated[str, AfterValidator(_full_path)]
"""A directory: absolute, or a URI; without a trailing slash."""
LocalFile = Annotated[str, AfterValidator(_local_file)]
"""An absolute path of a file on every member; empty: none."""
TopicName = Annotated[str, AfterValidator(_topic)]
TopicNames = Annotated[tuple[TopicName, ...], FailFast(), BeforeValidator(_split)]


class Options(BaseModel):
    """The options of every connector. The repr shows names only: values may be resolved secrets."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, defer_build=True)

    connector_class: str = option("connector.class", expected="the class of the connector", fixed=True)
    name: str = option("name", "", expected="the connector's name", instance_only=True)
    tasks_max: int = option(
        "tasks.max", 1, expected="a number of tasks, 1 to 10000", instance_only=True, ge=1, le=10_000
    )
    units_refresh_ms: int = option(
        "units.refresh.interval.ms",
        30_000,
        expected="milliseconds between two searches for new units, 100 or more",
        instance_only=True,
        ge=100,
    )
    task_units: Names = option("task.units", (), expected="unit ids (written by the connector's instance)")

    @classmethod
    def anchored(cls, config: Mapping[str, str], base: Path) -> dict[str, str]:
        """Returns ``config`` with relative local paths made absolute against ``base``."""
        paths = option_names(cls, "local_path")
        return {name: anchored(value, base) if name in paths else value for name, value in config.items()}

    @classmethod
    def opened_paths(cls, config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yields (option, path) of what the connector opens by a resolved configuration.

        Members refuse paths that their Worker does not allow. Override it if an option contains a path.
        """
        for name in option_names(cls, "local_path"):
            if path := config.get(name):
                yield name, path

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(sorted(self.model_fields_set))})"

    __str__ = __repr__


def option_names(options: type[Options], flag: str = "") -> dict[str, FieldInfo]:
    """Returns the options that a class declares, by name; with ``flag``, only those that carry it."""
    return {
        field.alias or name: field
        for name, field in options.model_fields.items()
        if not flag or (isinstance(field.json_schema_extra, dict) and field.json_schema_extra.get(flag))
    }


def with_defaults(
    options: type[Options], config: Mapping[str, str], resolver: Resolver | None = None
) -> dict[str, str]:
    """Returns ``config`` with the defaults that are references; these are resolved like written values.

    An option with ``goes_with`` gets an empty text instead if one of those options differs from its own
    default. With ``resolver``, a value that equals the resolved default does not differ.
    """
    defaults = _references(options)
    own_way = dict.fromkeys(_own_way(options, config, resolver), "")
    return {**defaults, **own_way, **config}


def _references(options: type[Options]) -> dict[str, str]:
    return {
        name: field.default
        for name, field in option_names(options).items()
        if isinstance(field.default, str) and contains_reference(field.default)
    }


def _own_way(options: type[Options], config: Mapping[str, str], resolver: Resolver | None) -> Sequence[str]:
    """Returns the options whose defaults do not apply, since an option that they go with says otherwise."""
    defaults = _references(options)

    def says_else(name: str) -> bool:
        written, default = config.get(name) or defaults[name], defaults[name]
        if resolver is not None:
            default = resolver.resolve({name: default}).config[name]
        return written not in (defaults[name], default)

    found = []
    for name, field in option_names(options, "goes_with").items():
        extra = field.json_schema_extra
        together = extra.get("goes_with") if isinstance(extra, dict) else ()
        if any(says_else(str(other)) for other in (together if isinstance(together, list) else ())):
            found.append(name)
    return found


def resolved_options(
    options: type[O], config: Mapping[str, str], resolver: Resolver, *, running: bool = False
) -> tuple[O, dict[str, str], Resolved]:
    """Returns the options with references resolved on this member, the written values, and the resolved ones.

    ``running``: see ``parse``. Raises ``OptionError`` and ``UnresolvedReference``.
    """
    written = with_defaults(options, config, resolver)
    if problems := [*_misplaced(written), *_shown_elsewhere(options, config, resolver)]:
        raise OptionError(problems)
    resolved = resolver.resolve(written)
    return parse(options, resolved.config, written, running=running), written, resolved


_OWN_CREDENTIALS: Final = "remove it, or write ${env:NAME} or ${file:/path:KEY} for the connector's own"


def _misplaced(written: Mapping[str, str]) -> list[Problem]:
    """Returns the uses of the Worker's credentials in options that could show them to others."""
    return [
        Problem(
            name, written[name], f"uses ${{worker.{used}}}, which only option {used} may be", _OWN_CREDENTIALS
        )
        for name, used in misplaced_credentials(written)
    ]


def _shown_elsewhere(
    options: type[Options], config: Mapping[str, str], resolver: Resolver
) -> Iterator[Problem]:
    """Yields the credentials of the Worker that are written beside another way to Kafka than its own."""
    for name in _own_way(options, config, resolver):
        if is_credential(config.get(name, "")):
            problem = "would show the Worker's credentials to other brokers, or in another way"
            yield Problem(name, config[name], problem, _OWN_CREDENTIALS)


def parse(
    options: type[O],
    config: Mapping[str, str],
    written: Mapping[str, str] | None = None,
    *,
    running: bool = False,
) -> O:
    """Returns the options in ``config``; raises ``OptionError`` with a problem of each option otherwise.

    ``written`` is the configuration before its references were resolved; errors show its values. ``running``:
    tasks were made of it, possibly by an earlier release. Options that only the search for units needs are
    not checked (see ``is_running``).
    """
    try:
        return options.model_validate(dict(config), context={_RUNNING: running})
    except ValidationError as error:
        shown = config if written is None else written
        # One problem for an option: a list may have thousands of bad elements.
        first: dict[str, dict[str, Any]] = {}
        for detail in error.errors(include_url=False, include_input=False):
            first.setdefault(_named(dict(detail)), dict(detail))
        details = list(first.values())[:_MOST_PROBLEMS]
        raise OptionError([_problem(options, detail, shown) for detail in details]) from None
    except Exception as error:
        # The validator of a plug-in failed, possibly on a hostile value. Report it as a problem of this
        # Connector only, without the error's text, which may quote a resolved secret.
        problem = f"its class cannot check these options ({type(error).__name__})"
        remedy = "simplify the values, or report it to the author of the class"
        raise OptionError(
            [Problem("connector.class", config.get("connector.class"), problem, remedy)]
        ) from None


def is_running(info: ValidationInfo) -> bool:
    """Whether a validator sees the options of a task. It lets pass what only the search for units needs."""
    return bool(info.context and info.context.get(_RUNNING))


def check(options: type[Options], config: Mapping[str, str]) -> list[Problem]:
    """Returns the problems that can be found without resolving references (whose values are not checked)."""
    readable = [
        Problem(
            name, _HIDDEN, "would be stored in clear text in Kafka", "write ${file:/path:KEY} or ${env:NAME}"
        )
        for name in option_names(options, "secret")
        if config.get(name) and not contains_reference(config[name])
    ]
    readable += _misplaced(config)
    try:
        parse(options, with_defaults(options, config), config)
    except OptionError as error:
        # Problems have shortened values only.
        return readable + [
            one
            for one in error.problems
            if one.value is None or not contains_reference(config.get(one.option, ""))
        ]
    return readable


def _named(detail: Mapping[str, Any]) -> str:
    """The option at fault."""
    where = str(detail["loc"][0]) if detail["loc"] else ""
    return str(detail.get("ctx", {}).get("option", where))


def _problem(options: type[Options], detail: dict[str, Any], shown: Mapping[str, str]) -> Problem:
    known = option_names(options)
    context = detail.get("ctx", {})
    name = _named(detail)
    value = _PASSWORD.sub(r"\1***", shown[name]) if name in shown else None
    if value and name in option_names(options, "secret") and not contains_reference(value):
        value = _HIDDEN
    if detail["type"] == "extra_forbidden":
        remedy = did_you_mean(_cut(name), known) or f"remove it; the options are {', '.join(sorted(known))}"
        return Problem(name, value, "is not an option of this class", remedy)
    expected = known[name].description if name in known else ""
    if detail["type"] == "missing":
        return Problem(name, None, "is required", f"use {expected}")
    if detail["type"] == "option":
        return Problem(name, value, context["problem"], context["remedy"])
    if detail["type"] in ("too_short", "string_too_short"):
        return Problem(name, value, "is empty", f"use {expected}")
    problem = str(detail["msg"]).replace("Input should be", "should be", 1)
    remedy = f"use {expected}"
    if value and not contains_reference(value):
        # The value behind a reference is not compared with anything.
        remedy = otherwise(did_you_mean(_cut(value), _choices(detail)), remedy)
    return Problem(name, value, problem[:1].lower() + problem[1:], remedy)


def _choices(detail: Mapping[str, Any]) -> Sequence[str]:
    """Returns the values that an option may have, if they can be listed."""
    if detail["type"] == "bool_parsing":
        return ("true", "false")
    return _CHOICES.findall(str(detail["msg"])) if detail["type"] == "literal_error" else ()
