"""Limits what a Connector may open on a member: the paths that its Worker allows, and no topic of its
Worker's group.

Checked on resolved values, since a reference can hold a path or a name of a topic.
"""

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import unquote

from pydantic_core import PydanticCustomError

from cooperator.connectors.formats import check_value, is_path, kind_in
from cooperator.connectors.kafka_properties import is_secret, refused
from cooperator.connectors.options import (
    O,
    OptionError,
    Options,
    Problem,
    is_full_path,
    resolved_options,
)
from cooperator.connectors.output_paths import normal, path_of
from cooperator.connectors.references import Resolved, Resolver, contains_reference

SYSTEM: Final = ("/proc", "/sys", "/dev", "/etc", "/run", "/var/run", "/boot", "/root/.ssh")
"""System directories of the member, including its mounted Secrets; denied unless ``spec.allowedPaths`` lists
them."""
_GLOB: Final = re.compile(r"[*?\[{]")
_GLOB_PARTS: Final = re.compile(r"[/{},]")
_BLANKS: Final = "".join(map(chr, range(0x21)))
"""Characters that Java's ``trim`` removes."""
_SPARK: Final = ("source.options.", "sink.options.")
_KAFKA: Final = "kafka."
STORES: Final = frozenset(
    "file s3 hdfs gs abfs abfss wasb wasbs adl oss cosn obs oci ofs o3fs".split()  # noqa: SIM905
)
"""Schemes of file systems and stores, as ``normal`` spells them. All others are refused unless
``spec.allowedPaths`` lists them: Hadoop has clients that open what an index or a mount table names
(``har:``, ``viewfs:``), or any server of the member's network (``http:``, ``webhdfs:``), and finds more in
each jar."""
_NOT_FILES: Final = ("http:", "https:", "jdbc:", "sc:")
_TOPIC_OPTIONS: Final = ("topic", "topics", "errors.deadletterqueue.topic.name", "subscribe", "assign")


def check_bounds(
    options: type[Options], config: Mapping[str, str], written: Mapping[str, str], resolver: Resolver
) -> None:
    """Raises ``OptionError`` for each path and topic that the Worker does not allow.

    ``config`` has the resolved values of ``written``, which errors show; or it is ``written`` itself, where
    nothing can be resolved.
    """
    is_resolved = config is not written
    problems = [
        Problem(owner, written.get(owner, path), *_NOT_ALLOWED)
        for owner, path in _opened(options, config)
        # A file that the Worker names for itself needs no second permission.
        if not written.get(owner, "").startswith("${worker.")
        and not ((is_full_path(path) or not is_resolved) and is_allowed(path, resolver.allowed_paths))
    ]
    for owner, name, value in _each(config):
        if owner == "units" and "${" in value:
            # References are resolved in the text of the list; what JSON's escapes spell is none.
            problem = "has an escaped reference"
            problems.append(Problem(owner, written.get(owner), problem, "write ${…} without escapes"))
        if name.startswith(_SPARK):
            problems += _of_format(owner, name, value, config, written, resolver)
        if name.split(".options.")[-1].lower() in _TOPIC_OPTIONS:
            own = resolver.own_topics & topics_in(value)
            if own:
                problem = f"names {min(own)}, a topic of the Worker's own group"
                problems.append(Problem(owner, written.get(owner, value), problem, "use another topic"))
    if problems:
        raise OptionError(problems)


def _opened(options: type[Options], config: Mapping[str, str]) -> Sequence[tuple[str, str]]:
    """Returns what the class says that it opens. Its failure is a problem of this Connector only."""
    try:
        return list(options.opened_paths(config))
    except OptionError:
        raise
    except Exception as error:  # without its text, which may quote a resolved secret
        problem = f"its class cannot say which paths it opens ({type(error).__name__})"
        remedy = "simplify the values, or report it to the author of the class"
        raise OptionError([Problem("connector.class", None, problem, remedy)]) from None


_NOT_ALLOWED: Final = (
    "is not a path that the Worker allows",
    "add its directory to spec.allowedPaths of the Worker, or use another",
)


def _of_format(
    owner: str,
    name: str,
    value: str,
    config: Mapping[str, str],
    written: Mapping[str, str],
    resolver: Resolver,
) -> Iterator[Problem]:
    """Yields the problems of an option of a source or sink of the class spark."""
    option_name = name.split(".options.", 1)[1].lower()
    if option_name.startswith(_KAFKA):
        property_name = option_name.removeprefix(_KAFKA)
        problem = refused(property_name, value, lambda path: is_allowed(path, resolver.allowed_paths))
        if problem:
            shown = None if is_secret(property_name) else written.get(owner)
            yield Problem(owner, shown, problem, "remove it, or use the connector's own options of access")
    if config is not written and contains_reference(value):
        # The value of a reference looks like another one, for which the options' own check has waited.
        try:
            check_value(kind_in(name, config), value, owner)
        except PydanticCustomError as error:
            context = error.context or {}
            yield Problem(owner, written.get(owner), str(context["problem"]), str(context["remedy"]))
    paths = _paths_in(value)
    if value and is_path(name, config):
        # Also a relative one, which a reference can hold, and a URL.
        paths = [value]
    if not all(is_full_path(path) and is_allowed(path, resolver.allowed_paths) for path in paths):
        yield Problem(owner, written.get(owner, value), *_NOT_ALLOWED)


def _each(config: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yields (option, name, value) for each checked value, including those in ``units`` of the class spark.
    ``option`` is the one that errors name."""
    for name, value in config.items():
        yield name, name, value
    try:
        units = json.loads(config.get("units", "") or "[]")
    except (ValueError, RecursionError):
        return  # the options' own check reports it
    for unit in units if isinstance(units, list) else []:
        for name, value in unit.items() if isinstance(unit, dict) else ():
            yield "units", name, str(value)


def _paths_in(value: str) -> list[str]:
    found = [value]
    if value.lstrip().startswith("["):  # Spark's option "paths"
        try:
            found = [str(each) for each in json.loads(value)]
        except (ValueError, RecursionError):
            return []
    return [each for each in map(str.strip, found) if is_full_path(each) and not each.startswith(_NOT_FILES)]


def topics_in(value: str) -> set[str]:
    """Returns the topics that an option names: a list with commas, or Spark's JSON for ``assign``."""
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        parsed = None
    return set(parsed) if isinstance(parsed, dict) else {name.strip(_BLANKS) for name in value.split(",")}


def not_of_group(options: Options, units: Sequence[str], own: frozenset[str]) -> Sequence[str]:
    """Returns the units without partitions of the group's own topics that a pattern matches."""
    if not getattr(options, "topics_regex", ""):
        return units
    return [unit for unit in units if unit.rpartition("-")[0] not in own]


def is_allowed(path: str, allowed: Collection[str]) -> bool:
    """Whether a Connector may open the path.

    With ``allowed``, the resolved path must be below one of them; without, system directories are denied,
    and schemes other than ``STORES``. A path with wildcards counts as the directory above the first one.
    Remote paths are compared by scheme, bucket and normalised path. Where a ``..`` follows a link, both
    readings must be allowed: Hadoop drops the link, other clients follow it.
    """
    if "\\" in path:
        return False  # Hadoop's wildcards take it away, so that it may hide "..".
    if path.startswith("//"):
        return False  # Hadoop takes what follows for a host.
    decoded = unquote(path)
    if decoded != path and not is_allowed(decoded, [unquote(prefix) for prefix in allowed]):
        return False  # Some readers decode a URI.
    if not _is_file_name(path):
        return False
    fixed = _GLOB.split(path)[0]
    if fixed != path:
        if ".." in _GLOB_PARTS.split(path):
            return False
        fixed = fixed.rpartition("/")[0] or "/"
    readings = {_real(fixed), _followed(fixed)}
    prefixes = [_real(prefix) for prefix in allowed]
    if prefixes:
        return all(any(_is_below(real, prefix) for prefix in prefixes) for real in readings)
    if not all(real.partition(":")[0] in STORES for real in readings):
        return False
    system = [_real(prefix) for prefix in SYSTEM]
    return not any(_is_below(real, each) or _is_below(each, real) for real in readings for each in system)


def _is_file_name(path: str) -> bool:
    """Whether a file system can have such a name; requests for others raise ValueError."""
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return "\0" not in path


def _real(path: str) -> str:
    """The path after Hadoop's way: each ``..`` drops what is before it, then links are followed."""
    plain = normal(path)
    if not plain.startswith("file:"):
        return plain
    return f"file:{os.path.realpath(plain.removeprefix('file:') or '/')}"


def _followed(path: str) -> str:
    """The path after the system's way: links are followed first."""
    plain = normal(path)
    if not plain.startswith("file:"):
        return plain
    return f"file:{os.path.realpath('/' + path_of(path).lstrip('/'))}"


def _is_below(path: str, prefix: str) -> bool:
    return f"{path.rstrip('/')}/".startswith(f"{prefix.rstrip('/')}/")


def allowed_options(
    options: type[O], config: Mapping[str, str], resolver: Resolver, *, running: bool = False
) -> tuple[O, dict[str, str], Resolved]:
    """Like ``resolved_options``, but also raises ``OptionError`` for values outside the bounds. Call it
    right before opening them."""
    found, written, resolved = resolved_options(options, config, resolver, running=running)
    check_bounds(options, resolved.config, written, resolver)
    return found, written, resolved
