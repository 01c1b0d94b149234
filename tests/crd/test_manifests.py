"""Manifests: every input is either read or refused with an error that names field and remedy."""

import json
import re
from contextlib import suppress
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cooperator.crd import Connector, Resource, ResourceError, State, Worker, dump, parse, to_manifest
from cooperator.crd.yamldoc import read_documents

LAKE = """\
apiVersion: cooperator.dev/v1alpha1
kind: Worker
metadata: {name: lake}
spec: {replicas: 3, runtime: spark, scheduledRebalanceMaxDelayMs: 300000}
"""
SOURCES = """\
apiVersion: cooperator.dev/v1alpha1
kind: Connector
metadata: {name: sources}
spec:
  workerRef: {name: lake}
  class: files-to-kafka
  tasksMax: 4
  config: {path: ./data, topic: lines}
"""


def worker(**spec: object) -> str:
    return f"{LAKE.partition('spec:')[0]}spec: {json.dumps(spec)}\n"


def connector(**spec: object) -> str:
    full = {"workerRef": {"name": "lake"}, "class": "files-to-kafka", **spec}
    return f"{SOURCES.partition('spec:')[0]}spec: {json.dumps(full)}\n"


def refusals(text: str) -> list[str]:
    with pytest.raises(ResourceError) as caught:
        parse(text, "lake.yaml")
    return [str(problem) for problem in caught.value.problems]


def refusal(text: str) -> str:
    (only,) = refusals(text)
    return only


def test_the_shape_of_a_manifest() -> None:
    lake, sources = parse(f"{LAKE}---\n{SOURCES}---\n", "lake.yaml")

    assert isinstance(lake, Worker)
    assert (lake.metadata.name, lake.spec.replicas) == ("lake", 3)
    assert lake.spec.scheduled_rebalance_max_delay_ms == 300_000
    assert lake.group_id == "cooperator-default.lake"
    assert isinstance(sources, Connector)
    assert (sources.spec.worker_ref.name, sources.spec.class_) == ("lake", "files-to-kafka")
    assert (sources.spec.tasks_max, sources.spec.state) == (4, State.RUNNING)
    assert sources.spec.config == {"path": "./data", "topic": "lines"}


def test_no_document_is_no_resource() -> None:
    assert parse("", "empty.yaml") == parse("---\n# nothing\n---\n", "empty.yaml") == ()


def test_settings_become_text_as_kafka_connect_writes_them() -> None:
    (resource,) = parse(connector(config={"a": 3, "b": 0.5, "c": True, "d": "x", "e": -7}), "lake.yaml")

    assert isinstance(resource, Connector)
    assert resource.spec.config == {"a": "3", "b": "0.5", "c": "true", "d": "x", "e": "-7"}


@pytest.mark.parametrize(
    ("written", "read"),
    [("on", "true"), ("No", "false"), ("0x10", "16"), ("010", "8"), ("1_000", "1000"), ("1e3", "1000.0")]
    + [(text, text) for text in ("2001-01-01", "1:30", "y", "'on'", "~/data", "08:15", ".5.", "1.2.3")],
)
def test_unquoted_settings_read_as_kubectl_reads_them(written: str, read: str) -> None:
    (resource,) = parse(SOURCES.replace("./data", written), "lake.yaml")

    assert isinstance(resource, Connector)
    assert resource.spec.config["path"] == read.strip("'")


def test_a_refusal_names_file_document_line_resource_field_value_and_remedy() -> None:
    said = refusal(f"{LAKE}---\n{SOURCES.replace('tasksMax: 4', 'tasksMax: four')}")

    assert said == (
        "lake.yaml, document 2, line 12 (Connector sources): spec.tasksMax is 'four', but must be a whole "
        "number (maximum number of tasks)"
    )


def test_all_problems_are_named_at_once() -> None:
    said = refusals(f"{worker(replicas=-1, runtime='flink')}---\n{connector(taskWeight=0)}")

    assert [re.sub(r".*\): (\S+) is .*", r"\1", line) for line in said] == [
        "spec.replicas",
        "spec.runtime",
        "spec.taskWeight",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (worker(replicas="3"), r"spec\.replicas is '3', but must be a whole number"),
        (worker(replicas=True), r"spec\.replicas is true, but must be a whole number"),
        (worker(replicas=1.5), r"spec\.replicas is 1\.5, but must be a whole number"),
        (worker(replicas=None), r"spec\.replicas is empty, but must be a whole number"),
        (worker(replicas=5000), r"spec\.replicas is 5000, but must be at most 1000"),
        (worker(replica=3), r"spec\.replica is not a field: did you mean 'replicas'\?"),
        (worker(group_id="x"), r"spec\.group_id is not a field: did you mean 'groupId'\?"),
        (worker(zzz=3), r"spec\.zzz is not a field: use one of replicas, runtime, "),
        (worker(runtime="connect", capacity=2), r"capacity is for runtime: spark; .*: remove it"),
        (worker(groupPolicy="adopt"), r"spec\.groupPolicy is 'adopt', but must be 'Create' or 'Adopt'"),
        (worker(groupPolicy="adop"), r"must be 'Create' or 'Adopt'.*: did you mean 'Adopt'\?"),
        (worker(policy="eager"), r"spec\.policy is 'eager', but must be 'Default', 'Kip415' or 'Eager'"),
        (worker(groupId="my group"), r"spec\.groupId is 'my group': use 1 to 200 letters"),
        (worker(bootstrapServers="kafka"), r"'kafka' is not host:port; write host1:port1"),
        (worker(checkpointLocation=""), r"spec\.checkpointLocation is '': write a directory such as"),
        (worker(spark={"conf": {"a": [1]}}), r"spec\.spark\.conf\.a is a list, but must be text, a number"),
        (
            worker(leaseMs=33_000),
            r"leaseMs \(33000\) is not greater than .* \(33000\).* Raise leaseMs or lower rebalanceTimeoutMs",
        ),
        (worker(heartbeatIntervalMs=4_000), r"more than a third of sessionTimeoutMs \(10000\)"),
        (LAKE.replace("lake", "Lake"), r"metadata\.name is 'Lake': use 1 to 52 lower-case .*RFC 1123"),
        (LAKE.replace("lake", "l" * 53), r"use 1 to 52 lower-case"),
        (LAKE.replace("{name: lake}", "{}"), r"metadata\.name is missing: add it"),
        (LAKE.replace("{name: lake}", "{name: lake, lables: {}}"), r"did you mean 'labels'\?"),
        (LAKE.replace("Worker", "Wroker"), r"kind is 'Wroker': did you mean 'Worker'\?"),
        (LAKE.replace("v1alpha1", "v1"), r"apiVersion is 'cooperator.dev/v1', but must be .*v1alpha1"),
        (LAKE.replace("spec: {", "spec: ["), r"line 4: not valid YAML: "),
        ("just text", r"the document is 'just text', but must be a mapping"),
        ("kind: Worker", r"apiVersion is missing: add apiVersion: cooperator.dev/v1alpha1"),
        (
            SOURCES.replace("  workerRef: {name: lake}\n", ""),
            r"spec\.workerRef is missing: add it .*name: lake",
        ),
        (SOURCES.replace("{name: lake}", "lake"), r"spec\.workerRef is 'lake', but must be a mapping"),
        (SOURCES.replace("{name: sources}", "{name: a_b}"), r"metadata\.name is 'a_b'.*RFC 1123"),
        (
            connector(config={"tasks.max": "3"}),
            r"spec\.config: has 'tasks\.max', which is set by spec\.tasksMax",
        ),
        (connector(config={"": 1}), r"spec\.config\. is '', but must be at least one character"),
        (
            connector(state="Started"),
            r"spec\.state is 'Started', but must be 'Running', 'Paused' or 'Stopped'",
        ),
        (connector(taskWeight=True), r"spec\.taskWeight is true, but must be a number"),
        (f"{LAKE}---\n{LAKE}", r"document 2, line 8 .*is already in document 1: keep one"),
        (LAKE + "kind: Worker\n", r"line 5: kind: occurs twice: keep one of the two"),
        (LAKE + "1: x\n", r"a field's name is not text: put it in quotes"),
        (LAKE + "<<: {a: b}\n", r"merge keys \(<<\) are not supported: write out the fields"),
        (LAKE + "x: !!python/name:os.system x\n", r"the YAML tag .* is not supported|does not fit"),
        (LAKE + "x: .nan\n", r"x: is \.nan, which is not a finite number"),
        (LAKE + f"x: {'9' * 5000}\n", r"x: is too long for a number"),
        (LAKE + "x: &a [*a]\n", r"an alias contains itself"),
        (LAKE + f"x: {'[' * 2000}", r"nested more than 50 levels deep"),
        (LAKE + 'x: "\\uD800"\n', r"x: contains half a character"),
        (LAKE + 'x: "\\UFFFFFFFF"\n', r"not valid YAML"),
        (LAKE + "x: \x07\n", r"not valid YAML"),
    ],
)
def test_refusals(text: str, said: str) -> None:
    assert re.search(said, refusal(text), re.DOTALL)


def test_the_content_of_a_config_is_not_repeated() -> None:
    assert "hunter2" not in refusal(connector(config={"password": ["hunter2"]}))
    assert "hunter2" not in refusal(connector(config={"password": {"value": "hunter2"}}))


def test_exponential_aliases_are_refused() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9)
    )
    assert "more than 100000 values" in refusal(bomb)


# Any input gives resources or a ResourceError, never another exception.

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)


def try_parse(text: str) -> tuple[Resource, ...]:
    with suppress(ResourceError):
        return parse(text, "any.yaml")
    return ()


@given(st.text())
def test_any_text(text: str) -> None:
    try_parse(text)


@given(st.text("{}[]-:,&*!|>%@'\"?#<~\\ \n\tauU0x1._", max_size=60))
def test_any_text_that_looks_like_yaml(text: str) -> None:
    try_parse(LAKE + text)
    try_parse(text)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A valid manifest in which any part is replaced by anything."""
    manifest: Any = yaml.safe_load(draw(st.sampled_from([LAKE, SOURCES])))
    part, key = manifest, draw(st.sampled_from(sorted(manifest)))
    while isinstance(part[key], dict) and part[key] and draw(st.booleans()):
        part = part[key]
        key = draw(st.sampled_from(sorted(part)))
    part[draw(st.just(key) | st.text(max_size=8))] = draw(plain)
    return yaml.safe_dump(manifest)


@given(damaged())
def test_any_damage(text: str) -> None:
    try_parse(text)


names = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?", fullmatch=True)
plain_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=12)
looks_like_something_else = st.sampled_from(
    ["on", "~", "", "0o17", "1e3", "1:30", "2001-01-01", "0x1f", "<<", "="]
)
keys = texts.filter(
    lambda key: key not in ("", "name", "connector.class", "tasks.max") and not key.startswith("cooperator.")
)
settings = st.dictionaries(keys, texts | looks_like_something_else | st.integers() | st.booleans())
metadata = st.fixed_dictionaries(
    {"name": names}, optional={"namespace": names, "labels": st.dictionaries(texts, texts), "uid": texts}
)
workers = st.fixed_dictionaries(
    {"replicas": st.integers(0, 1000), "leaseMs": st.integers(33_001, 10**7)},
    optional={
        "groupId": names,
        "policy": st.sampled_from(["Default", "Kip415", "Eager"]),
        "bootstrapServers": st.just("a:1,b:2"),
        "spark": st.fixed_dictionaries({}, optional={"conf": settings}),
        "resources": st.fixed_dictionaries(
            {}, optional={"limits": st.dictionaries(names, st.sampled_from([1, "0.5", "2Gi"]), max_size=3)}
        ),
        "template": st.fixed_dictionaries(
            {}, optional={"spec": st.fixed_dictionaries({}, optional={"tolerations": st.lists(plain_json)})}
        ),
        "envAllowed": st.lists(st.from_regex(r"[A-Z_]{1,9}", fullmatch=True), unique=True, max_size=5),
        "kafka": st.fixed_dictionaries(
            {"securityProtocol": st.just("SSL")},
            optional={"tls": st.fixed_dictionaries({}, optional={"verifyHostname": st.booleans()})},
        ),
    },
).map(lambda spec: ("Worker", spec))
connectors = st.fixed_dictionaries(
    {"workerRef": st.fixed_dictionaries({"name": names}), "class": names},
    optional={
        "tasksMax": st.integers(1, 40_000),
        "taskWeight": st.floats(0.001, 1e6) | st.integers(1, 9),
        "config": settings,
        "state": st.sampled_from(["Running", "Paused", "Stopped"]),
    },
).map(lambda spec: ("Connector", spec))
manifests = st.builds(
    lambda meta, kind_spec: {
        "apiVersion": "cooperator.dev/v1alpha1",
        "kind": kind_spec[0],
        "metadata": meta,
        "spec": kind_spec[1],
    },
    metadata,
    workers | connectors,
)


@given(st.lists(manifests, max_size=3, unique_by=lambda m: (m["kind"], m["metadata"]["name"])))
def test_resources_round_trip(documents: list[dict[str, Any]]) -> None:
    # JSON is YAML, and strings are quoted in it.
    resources = parse("---\n".join(json.dumps(document) + "\n" for document in documents), "made")

    assert len(resources) == len(documents)
    assert parse(dump(resources), "dumped") == resources
    for resource in resources:
        assert parse(json.dumps(to_manifest(resource)), "printed") == (resource,)


def test_the_output_of_get_can_be_applied() -> None:
    (lake,) = parse(LAKE, "lake.yaml")
    printed = {**to_manifest(lake), "status": {"whatever": [1]}}

    assert parse(json.dumps(printed), "printed") == (lake,)


def test_aliases_of_a_long_text_share_it() -> None:
    """A copy for each alias would take 2 GB here."""
    [document] = read_documents(f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 20_000)}]\n", "file")
    assert isinstance(document.value, dict)
    aliases = document.value["b"]
    assert isinstance(aliases, list)
    assert len({id(each) for each in aliases}) == 1
