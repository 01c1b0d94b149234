"""Options of a connector: declared once, checked before anything runs, errors that help.

An options class is a pydantic model whose fields are named by ``option(...)``. Configurations are flat
``str -> str`` maps as in Kafka Connect; what a value may be is told by the field's type and validators.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from cooperator.runtime.references import Resolved, Resolver, contains_reference

O = TypeVar("O", bound="Options")  # noqa: E741


_URI = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:/")
_PASSWORD = re.compile(r"(://[^:/?#]*:|[?&]password=)[^@&/]+")
_HIDDEN = "***"
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}\Z")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a configuration: which option, its value as written (None: not there), what
    is wrong, what to do."""

    option: str
    value: str | None
    problem: str
    remedy: str

    def __str__(self) -> str:
        value = "" if self.value is None else f" = {self.value!r}"
        return f"option {self.option!r}{value}: {self.problem}; {self.remedy}"


class OptionError(ValueError):
    """A configuration that cannot be run; ``problems`` is never empty."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


def refuse(problem: str, remedy: str, option: str = "") -> PydanticCustomError:
    """For validators: ``raise refuse("is empty", "name a directory")``; those of several options name the
    one to blame. Neither text may hold the value: it may be a resolved secret, while ``Problem.value``
    shows the reference."""
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
    """A field that reads the option ``name``. ``expected`` completes "give …" in errors.

    ``fixed``: cannot change while the connector's checkpoints live. ``instance_only``: concerns the
    connector's instance, so that a change of it restarts no task. ``local_path``: may be written
    relative to the manifest. ``secret``: has to be written as a reference, and no error shows its value.
    ``goes_with``: options that say the same together; its default counts where none of them is written.
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


def _full_path(value: str) -> str:
    if not value.startswith("/") and not _URI.match(value):
        raise refuse("is relative", "write an absolute path, or a URI such as s3a://bucket/path")
    if any(character in value for character in "*?[]{}"):
        raise refuse("has a wildcard", "name a directory")
    return value.rstrip("/") or "/"


def is_topic_name(value: str) -> bool:
    return _TOPIC.match(value) is not None and value not in (".", "..")


def _topic(value: str) -> str:
    if not is_topic_name(value):
        raise refuse("is no topic name", "use up to 249 letters, digits, dots, underscores and dashes")
    return value


Names = Annotated[tuple[str, ...], BeforeValidator(_split)]
"""A list, written with commas."""
FullPath = Annotated[str, AfterValidator(_full_path)]
"""A directory: absolute, or a URI; without a slash at its end."""
TopicName = Annotated[str, AfterValidator(_topic)]
TopicNames = Annotated[tuple[TopicName, ...], BeforeValidator(_split)]


class Options(BaseModel):
    """What every connector takes. Its repr shows names only: values may be resolved secrets."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    connector_class: str = option("connector.class", expected="the class of the connector", fixed=True)
    name: str = option("name", "", expected="the connector's name", instance_only=True)
    tasks_max: int = option(
        "tasks.max", 1, expected="a number of tasks, 1 to 10000", instance_only=True, ge=1, le=10_000
    )
    units_refresh_ms: int = option(
        "units.refresh.interval.ms",
        30_000,
        expected="milliseconds between two looks for new units, 100 or more",
        instance_only=True,
        ge=100,
    )
    task_units: Names = option("task.units", (), expected="unit ids (written by the connector's instance)")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(sorted(self.model_fields_set))})"

    __str__ = __repr__


def option_names(options: type[Options], flag: str = "") -> dict[str, FieldInfo]:
    """The options that a class declares, by their names; with ``flag`` those that carry it."""
    return {
        field.alias or name: field
        for name, field in options.model_fields.items()
        if not flag or (isinstance(field.json_schema_extra, dict) and field.json_schema_extra.get(flag))
    }


def with_defaults(
    options: type[Options], config: Mapping[str, str], resolver: Resolver | None = None
) -> dict[str, str]:
    """``config`` and the defaults that are references, which are to be resolved like what is written.

    An option that goes with others has an empty text instead where one of these says something else than
    its own default does. ``resolver``: also by another name for the same.
    """
    defaults = {
        name: field.default
        for name, field in option_names(options).items()
        if isinstance(field.default, str) and contains_reference(field.default)
    }

    def says_else(name: str) -> bool:
        written, default = config.get(name) or defaults[name], defaults[name]
        if resolver is not None:
            default = resolver.resolve({name: default}).config[name]
        return written not in (defaults[name], default)

    for name, field in option_names(options, "goes_with").items():
        extra = field.json_schema_extra
        together = extra.get("goes_with") if isinstance(extra, dict) else ()
        if any(says_else(str(other)) for other in (together if isinstance(together, list) else ())):
            defaults[name] = ""
    return {**defaults, **config}


def resolved_options(
    options: type[O], config: Mapping[str, str], resolver: Resolver
) -> tuple[O, dict[str, str], Resolved]:
    """The options with their references resolved on this member, what was written, and what became of it.
    Raises OptionError, and UnresolvedReference."""
    written = with_defaults(options, config, resolver)
    resolved = resolver.resolve(written)
    return parse(options, resolved.config, written), written, resolved


def parse(options: type[O], config: Mapping[str, str], written: Mapping[str, str] | None = None) -> O:
    """The options in ``config``; OptionError with every problem otherwise.

    ``written``: the configuration before its references were resolved; errors show its values.
    """
    try:
        return options.model_validate(dict(config))
    except ValidationError as error:
        shown = config if written is None else written
        raise OptionError([_problem(options, dict(detail), shown) for detail in error.errors()]) from None


def check(options: type[Options], config: Mapping[str, str]) -> list[Problem]:
    """The problems that can be told without resolving references (their values are not looked at)."""
    readable = [
        Problem(name, _HIDDEN, "would be readable in Kafka", "write ${file:/path:KEY} or ${env:NAME}")
        for name in option_names(options, "secret")
        if config.get(name) and not contains_reference(config[name])
    ]
    try:
        parse(options, with_defaults(options, config), config)
    except OptionError as error:
        return readable + [one for one in error.problems if not contains_reference(one.value or "")]
    return readable


def _problem(options: type[Options], detail: dict[str, Any], shown: Mapping[str, str]) -> Problem:
    known = option_names(options)
    where = str(detail["loc"][0]) if detail["loc"] else ""
    context = detail.get("ctx", {})
    name = context.get("option", where)
    value = _PASSWORD.sub(r"\1***", shown[name]) if name in shown else None
    if value and name in option_names(options, "secret") and not contains_reference(value):
        value = _HIDDEN
    if detail["type"] == "extra_forbidden":
        return Problem(name, value, "is not an option of this class", _similar(name, known))
    expected = known[name].description if name in known else ""
    if detail["type"] == "missing":
        return Problem(name, None, "is required", f"give {expected}")
    if detail["type"] == "option":
        return Problem(name, value, context["problem"], context["remedy"])
    if detail["type"] in ("too_short", "string_too_short"):
        return Problem(name, value, "is empty", f"give {expected}")
    problem = str(detail["msg"]).replace("Input should be", "should be", 1)
    return Problem(name, value, problem[:1].lower() + problem[1:], f"give {expected}")


def _similar(name: str, known: Mapping[str, FieldInfo]) -> str:
    normal = name.lower().replace("_", ".").replace("-", ".")
    near = difflib.get_close_matches(normal, known, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"remove it; the options are {', '.join(sorted(known))}"
