"""The fuzz targets. Each takes arbitrary bytes and raises if a promise is broken."""

from __future__ import annotations

import base64
import itertools
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from cooperator.connectors import find, validate
from cooperator.connectors.bounds import check_bounds, is_allowed
from cooperator.connectors.options import OptionError
from cooperator.connectors.patterns import check_pattern, compiled
from cooperator.connectors.references import Resolver, UnresolvedReference, forbidden_files, own_topics
from cooperator.connectors.sql_rules import MAX_LENGTH, check_select
from cooperator.connectors.units import task_configs
from cooperator.controller.manifests.allowed import Allowance, not_allowed
from cooperator.controller.manifests.pods import Defaults, pod_manifest
from cooperator.crd import Connector, ResourceError, Worker, from_object
from cooperator.wire import (
    ConfigFold,
    DecodeError,
    ExtendedAssignment,
    Protocol,
    Record,
    decode_assignment,
    decode_config,
    decode_leader,
    decode_metadata,
    decode_status,
    encode_assignment,
    encode_metadata,
)

CORPUS: Final = Path(__file__).parent / "corpus"
KEYS: Final = (
    *("connector-a", "task-a-0", "commit-a", "target-state-a", "session-key", "restart-connector-a"),
    *("tasks-fencing-a", "logger-cluster-a", "status-task-a-0", "status-connector-a"),
    *("status-topic-t:connector-a", "owner", "policy", "memory"),
)
SECRET: Final = "planted-secret"


def seeds(target: str) -> list[bytes]:
    """Inputs that reached new code or broke a promise, one base64 line each."""
    return [base64.b64decode(line) for line in (CORPUS / f"{target}.txt").read_text().split()]


def wire(data: bytes) -> None:
    """Decoding yields a value or a DecodeError; a decoded value survives a round trip."""
    with suppress(DecodeError):
        metadata = decode_metadata(data)
        again = decode_metadata(encode_metadata(metadata, Protocol.SESSIONED))
        assert _items(again.allocation) == _items(metadata.allocation)
    with suppress(DecodeError):
        found = decode_assignment(data)
        read = decode_assignment(encode_assignment(found, Protocol.SESSIONED))
        assert _items(read) == _items(found)
    if not data:
        return
    record = Record(KEYS[data[0] % len(KEYS)], data[1:])
    for decode in (decode_config, decode_status, decode_leader):
        with suppress(DecodeError):
            decode(record)
    ConfigFold().apply(record, 0)


def _items(found: ExtendedAssignment | None) -> object:
    return found and ({*found.assigned}, {*found.revoked})


HERE: Final = "@"
"""Stands for the directory of ``_files`` in inputs, so that seeds are the same on every machine."""


@cache
def _files() -> Path:
    """A member's files: ``a`` is allowed; ``b`` and what links in ``a`` lead to are not."""
    root = Path(tempfile.mkdtemp(prefix="cooperator-fuzz-")).resolve()
    (root / "a").mkdir()
    (root / "b").mkdir()
    (root / "a/s").write_text(f"k={SECRET}\n")
    (root / "b/s").write_text("k=another-planted-secret\n")
    (root / "a/l").symlink_to(root / "b")
    (root / "a/f").symlink_to(root / "b/s")
    return root


@cache
def _resolver() -> Resolver:
    return Resolver(
        environment={"ALLOWED": SECRET, "FORBIDDEN": "another-planted-secret"},
        allowed=frozenset({"ALLOWED"}),
        allowed_files=(str(_files() / "a"),),
        allowed_paths=(str(_files() / "a"), "s3a://lake/in"),
        own_topics=own_topics("lake"),
        bootstrap_servers="kafka:9092",
    )


def references(data: bytes) -> None:
    """Resolving yields a configuration or a user error; forbidden values never appear in it."""
    text = data.decode(errors="surrogateescape").replace(HERE, str(_files()))
    resolver = _resolver()
    forbidden_files({"option": text}, resolver.allowed_files)
    with suppress(UnresolvedReference):
        found = resolver.resolve({"option": text})
        value = found.config["option"]
        assert "another-planted-secret" not in value
        assert SECRET not in found.scrub(value)


def bounds(data: bytes) -> None:
    """A path that is allowed leads nowhere else, however Hadoop expands it; options have no other errors."""
    text = data.decode(errors="surrogateescape")
    path = text.replace(HERE, str(_files()))
    resolver = _resolver()
    if is_allowed(path, resolver.allowed_paths) and path.startswith("/"):
        for each in itertools.islice(_expanded(path), 50):
            real = f"{os.path.realpath(each)}/"
            assert real.startswith(f"{_files()}/a/"), (path, each)
    config = {
        "source.format": "kafka",
        "source.options.subscribe": text,
        "source.options.paths": path,
        "sink.options.path": path,
        "units": text,
    }
    with suppress(OptionError):
        check_bounds(find("spark").options, config, config, resolver)
        # Spark splits a list at commas, and Java trims control characters.
        assert not resolver.own_topics.intersection(
            re.sub("^[\0- ]+|[\0- ]+$", "", t) for t in text.split(",")
        )
    with suppress(ValueError):
        check_pattern("topics.regex", text, "orders[.].*")
        assert compiled(text)("orders") in (True, False)


def _expanded(path: str) -> Iterator[str]:
    """The paths of Hadoop's wildcards: alternatives in braces, and a name of no link for the others."""
    inner = re.search(r"\{([^{}]*)\}", path)
    if inner is None:
        yield re.sub(r"\[[^]]*\]|[*?]+", "x", path)
        return
    for part in inner[1].split(","):
        yield from _expanded(path[: inner.start()] + part + path[inner.end() :])


def units(data: bytes) -> None:
    """Each unit is in exactly one task, under a name that stays inside its directory; or a ValueError."""
    text = data.decode(errors="surrogateescape")
    names, _, rest = text.partition("|")
    before, _, most = rest.partition("|")
    found, connector = [each for each in names.split(",") if each], find("noop")
    earlier = [{"task.units": each} for each in before.split(";")]
    tasks_max = 1 + len(most) % 20
    with suppress(ValueError):
        tasks = task_configs(connector, {"connector.class": "noop"}, found, tasks_max, earlier)
        given = [unit for task in tasks for unit in task["task.units"].split(",") if unit]
        assert sorted(given) == sorted(found), (given, found)
        assert len(tasks) <= tasks_max
        assert all("/" not in unit and unit not in (".", "..") for unit in given)
    formats = {"source.format": "rate", "sink.format": "noop"}
    assert isinstance(validate("spark", {**formats, "units": text}), list)


def sql(data: bytes) -> None:
    """A text is refused with a remedy, or is one SELECT without the functions that run or open something."""
    text = data.decode(errors="surrogateescape")
    refused: PydanticCustomError | None = None
    try:
        check_select(text)
    except PydanticCustomError as error:
        refused = error
    if refused is not None:
        assert refused.context
        assert refused.context["remedy"]
        return
    assert len(text) <= MAX_LENGTH
    plain = re.sub(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|--[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    called = re.search(r"\b(reflect|java_method|try_reflect|input_file_name|read_files)\b\s*\(", plain, re.I)
    assert called is None, called


_LEAVES = st.sampled_from([None, True, 0, -1, 1.5, 2**63, "", "a", "1", "ALL", "topic", "\ud800", "a" * 300])


def _containers(part: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=8), part, max_size=3)


def _mutated(good: Any) -> st.SearchStrategy[Any]:
    """Generates JSON like the example, with parts replaced, removed or added."""
    any_value = st.recursive(
        _LEAVES,
        lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=8), part, max_size=3),
    )
    if isinstance(good, Mapping):
        parts = {key: _mutated(value) for key, value in good.items()}
        same = st.fixed_dictionaries({}, optional={**parts, "unknown": any_value})
        return st.just(good) | same | any_value
    if isinstance(good, list):
        return st.just(good) | st.lists(_mutated(good[0]), max_size=3) | any_value
    return st.just(good) | any_value


WORKER: Final[Mapping[str, Any]] = {
    "replicas": 2,
    "groupId": "g",
    "runtime": "spark",
    "capacity": 4,
    "envAllowed": ["A"],
    "checkpointVolume": {"claimName": "c"},
    "spark": {"heapMb": 512, "conf": {"a": "b"}, "packages": ["a:b:1"]},
    "kafka": {"securityProtocol": "SASL_SSL", "sasl": {"mechanism": "PLAIN", "secretRef": {"name": "s"}}},
    "template": {
        "metadata": {"annotations": {"a": "b"}, "labels": {"a": "b"}},
        "spec": {
            "volumes": [{"name": "v", "secret": {"secretName": "s"}}],
            "securityContext": {"runAsUser": 1},
            "containers": [
                {"name": "worker", "env": [{"name": "A", "value": "b"}], "ports": [{"name": "a"}]}
            ],
            "tolerations": [{"operator": "Exists"}],
        },
    },
}
CONNECTOR: Final[Mapping[str, Any]] = {
    "workerRef": {"name": "lake"},
    "class": "kafka-to-files",
    "tasksMax": 2,
    "config": {
        "topics": "a,b",
        "topics.regex": "(a|a)*b",
        "path": "/tmp/out",
        "format": "json",
        "transform.sql": "SELECT upper(value) AS value FROM input",
        "value.converter": "json",
        "errors.tolerance": "all",
    },
}


@given(st.sampled_from(["Worker", "Connector"]), _mutated({"Worker": WORKER, "Connector": CONNECTOR}))
@settings(deadline=None, suppress_health_check=list(HealthCheck), database=None, max_examples=50)
def _manifest(kind: str, specs: Any) -> None:
    spec = specs.get(kind) if isinstance(specs, Mapping) else specs
    body = {
        "apiVersion": "cooperator.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": "lake", "namespace": "data", "uid": "u"},
        "spec": spec,
    }
    try:
        found = from_object(body)
    except ResourceError:
        return
    json.dumps(found.model_dump(mode="json", by_alias=True))
    if isinstance(found, Worker):
        if not not_allowed(found, Allowance()):
            json.dumps(pod_manifest(found, Defaults("image:1", "kafka:9092"), "lake-0", "r1"))
    elif isinstance(found, Connector):
        for problem in validate(found.spec.class_, found.spec.config):
            assert len(str(problem)) < 20_000


_FUZZ_MANIFEST: Final[Callable[[bytes], object]] = vars(_manifest)["hypothesis"].fuzz_one_input


def manifests(data: bytes) -> None:
    """A resource, of which a pod or a checked configuration can be made, or an error of the user's."""
    _FUZZ_MANIFEST(data)


TARGETS: Final[Mapping[str, Callable[[bytes], None]]] = {
    "wire": wire,
    "references": references,
    "bounds": bounds,
    "units": units,
    "sql": sql,
    "manifests": manifests,
}
