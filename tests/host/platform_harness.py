"""Both platforms in a harness that the test makes up: processes and pods that are only said to run.

Their leader notes what it is told.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, cast

from cooperator.controller.api.client import PODS, Api, ApiError, Kind
from cooperator.controller.manifests.pods import Defaults
from cooperator.controller.names import CONTAINER, FINALIZER, LEAVING
from cooperator.controller.options import OperatorOptions
from cooperator.controller.outputs import Outputs
from cooperator.controller.platform import KubernetesPlatform
from cooperator.controller.store import CONNECTOR, POD, WORKER, Store
from cooperator.crd import Connector, Worker, parse
from cooperator.host.leader import OnRestart
from cooperator.host.platform import Goal, Wanted
from cooperator.host.worker_loop import WorkerLoop
from cooperator.leader.lease_confirmation import Candidates
from cooperator.leader.service import LeaderService
from cooperator.leader.settings import ServiceSettings
from cooperator.local.layout import WorkerDir
from cooperator.local.members import MemberProcesses, ProcessIncarnation
from cooperator.local.platform import LocalPlatform
from cooperator.model import Desired, PodIncarnation, Policy
from cooperator.planner.view import Facts

NAME = ("default", "lake")


def worker(**spec: Any) -> Worker:
    [found] = parse(
        json.dumps(
            {
                "apiVersion": "cooperator.dev/v1alpha1",
                "kind": "Worker",
                "metadata": {"name": "lake", "uid": "w"},
                "spec": {"runtime": "spark", "bootstrapServers": "kafka:9092", **spec},
            }
        ),
        "test",
    )
    assert isinstance(found, Worker)
    return found


def connector(name: str, **spec: Any) -> Connector:
    [found] = parse(
        json.dumps(
            {
                "apiVersion": "cooperator.dev/v1alpha1",
                "kind": "Connector",
                "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
                "spec": {"workerRef": {"name": "lake"}, "class": "noop", **spec},
            }
        ),
        "test",
    )
    assert isinstance(found, Connector)
    return found


@dataclass
class FakeLeader:
    """A leader of a group of which the test says what it is. ``log`` gets what it is asked to do."""

    log: list[str] = field(default_factory=list)
    projection: Callable[[], dict[str, Any]] = dict
    facts_given: list[Facts] = field(default_factory=list)
    candidates: Candidates | None = None
    is_silent: bool = False
    desired: list[Desired] = field(default_factory=list)
    refuses: BaseException | None = None
    """The error that ``hand_back`` raises."""
    settings: ServiceSettings | None = None
    on_restart: OnRestart | None = None
    url: str = "http://127.0.0.1:4242/"

    def start(self, settings: ServiceSettings, on_restart: OnRestart) -> LeaderService:
        self.settings, self.on_restart = settings, on_restart
        self.log.append("lead")
        return cast(LeaderService, self)

    def set_policy(self, policy: Policy) -> None:
        pass

    def set_desired(self, desired: Desired) -> None:
        self.desired.append(desired)

    def set_facts(self, facts: Facts) -> None:
        self.facts_given.append(facts)
        self.log.append("tell")

    def set_candidates(self, candidates: Candidates) -> None:
        self.candidates = candidates

    def status(self, timeout_s: float) -> dict[str, Any]:
        return self.projection()

    def hand_back(self, on_wait: Callable[[str], None]) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.log.append("hand back")

    def stop(self, leave: bool = False) -> None:
        self.log.append("leave" if leave else "stop")


class PlatformHarness(Protocol):
    """The operations of a conversation with a platform."""

    log: list[str]
    leader: FakeLeader
    loop: WorkerLoop[Any]
    now_ms: int
    stale: bool

    def ask(self, asked: Worker, *connectors: Connector) -> None:
        """Applies manifests."""

    def delete(self) -> None:
        """Deletes the Worker's manifest."""

    def end(self, identity: str) -> None:
        """The process ends."""

    def members(self) -> Mapping[str, str]:
        """The members that run, with their own names of their incarnations."""

    def again(self) -> "PlatformHarness":
        """The same members with a new loop, as after a restart of its process."""

    def own(self, **tasks: int) -> None:
        """The group's leader says how many tasks each member has."""


def clock_of(harness: PlatformHarness) -> Callable[[], int]:
    return lambda: harness.now_ms


def projection_of(harness: PlatformHarness, tasks: Mapping[str, int]) -> dict[str, Any]:
    members = [
        {
            "identity": identity,
            "incarnation": incarnation,
            "member_id": incarnation,
            "owned": [f"t-{n}" for n in range(tasks.get(identity, 0))],
            "stopping": [],
            "draining": False,
            "runtime": "Warm",
        }
        for identity, incarnation in harness.members().items()
    ]
    return {
        "leading": True,
        "known": True,
        "generation": 3,
        "members": members,
        "tasks": [],
        "connectors": {},
        "stale": harness.stale,
    }


def done(harness: PlatformHarness) -> list[str]:
    """Actions on members since the last call."""
    steps = [step for step in harness.log if step not in ("tell", "lead")]
    harness.log.clear()
    return steps


# --- processes of this machine ----------------------------------------------------------------------


@dataclass
class FakeProcesses:
    """Processes as ``MemberProcesses`` shows them."""

    harness: "LocalHarness"
    incarnations: dict[str, ProcessIncarnation] = field(default_factory=dict)

    def observe(self) -> dict[str, ProcessIncarnation]:
        return dict(self.incarnations)

    def create(
        self,
        identity: str,
        revision: str,
        command: Callable[[str], Sequence[str]],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        earlier = self.incarnations.get(identity)
        past = (earlier.incarnation, *earlier.past) if earlier else ()
        name = f"{identity}.{len(past)}"
        assert [*command(name)] == [identity, name]
        self._set(ProcessIncarnation(identity, name, revision, self.harness.now_ms, pid=1, past=past))
        self.harness.log.append(f"create {identity}")

    def mark(self, identity: str, incarnation: str, reason: str) -> None:
        self._set(replace(self.incarnations[identity], marked_for=reason))
        self.harness.log.append(f"mark {identity} {reason}".strip())

    def terminate(self, identity: str, incarnation: str) -> None:
        self._set(replace(self.incarnations[identity], terminating_ms=self.harness.now_ms))
        self.harness.log.append(f"terminate {identity}")

    def kill(self, identity: str, incarnation: str) -> None:
        self.harness.log.append(f"kill {identity}")

    def remove(self, identity: str, incarnation: str) -> None:
        self._set(replace(self.incarnations[identity], removed=True))
        self.harness.log.append(f"remove {identity}")

    def _set(self, process: ProcessIncarnation) -> None:
        self.incarnations[process.identity] = process


class LocalHarness:
    def __init__(self, folder: Path, processes: FakeProcesses | None = None, now_ms: int = 0) -> None:
        self.log: list[str] = []
        # The platform compares it with the real clock.
        self.now_ms = now_ms or time.time_ns() // 1_000_000
        self.stale = False
        self.tasks: Mapping[str, int] = {}
        self.folder = folder
        self.processes = processes or FakeProcesses(self)
        self.processes.harness = self
        self.leader = FakeLeader(self.log, lambda: projection_of(self, self.tasks))
        self.wanted = Wanted(worker())
        self.platform = LocalPlatform(
            WorkerDir(folder),
            "test",
            "kafka:9092",
            lambda worker, servers, identity, incarnation: [identity, incarnation],
            cast(MemberProcesses, self.processes),
            self.wanted,
        )
        self.loop = WorkerLoop(NAME, self.platform, 0.01, clock_of(self), self.leader.start)

    def ask(self, asked: Worker, *connectors: Connector) -> None:
        self.want(Wanted(asked, connectors))

    def want(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.platform.want(wanted)

    def delete(self) -> None:
        self.want(Wanted(self.wanted.worker, (), Goal.REMOVE))

    def end(self, identity: str) -> None:
        process = self.processes.incarnations[identity]
        self.processes.incarnations[identity] = replace(process, ended_ms=self.now_ms)

    def members(self) -> Mapping[str, str]:
        found = self.processes.incarnations.values()
        return {process.identity: process.incarnation for process in found if not process.ended}

    def again(self) -> "LocalHarness":
        again = LocalHarness(self.folder, self.processes, self.now_ms)
        again.want(self.wanted)
        return again

    def own(self, **tasks: int) -> None:
        self.tasks = {name.replace("_", "-"): number for name, number in tasks.items()}


# --- pods of Kubernetes -----------------------------------------------------------------------------


class FakeApi:
    """An API server, its watches, and a kubelet that starts each pod at once and restarts none."""

    def __init__(self, harness: "KubernetesHarness") -> None:
        self.harness = harness
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.version = 0
        self.fails_to_list = False
        self.incarnations: list[tuple[str, str]] = []
        """All that the group has seen, in their own names."""

    def put(self, plural: str, body: Mapping[str, Any]) -> dict[str, Any]:
        self.version += 1
        metadata = {**body["metadata"], "resourceVersion": str(self.version)}
        changed = {**body, "metadata": metadata}
        self.objects[plural, metadata["name"]] = changed
        kind = {"pods": POD, "workers": WORKER, "connectors": CONNECTOR}.get(plural)
        if kind is not None:
            self.harness.store.put(kind, changed)
        return changed

    def gone(self, plural: str, name: str) -> None:
        body = self.objects.pop((plural, name))
        if plural == "pods":
            self.harness.store.put(POD, body, deleted=True)
        if plural == "workers":
            self.harness.store.put(WORKER, body, deleted=True)

    # --- as ``Api`` ---

    def writing_as(self, field_manager: str) -> "FakeApi":
        return self

    def get(self, kind: Kind, namespace: str | None, name: str) -> dict[str, Any]:
        if (kind.plural, name) not in self.objects:
            raise ApiError(404, "NotFound", f"{kind.plural} {name} not found")
        return self.objects[kind.plural, name]

    def list(self, kind: Kind, namespace: str | None, labels: str = "") -> tuple[Sequence[Any], int]:
        if self.fails_to_list:
            raise ApiError(503, "Unavailable", "the server is overloaded")
        return [body for (plural, _), body in self.objects.items() if plural == kind.plural], self.version

    def create(self, kind: Kind, manifest: Mapping[str, Any]) -> dict[str, Any]:
        self.version += 1
        now = stamp(self.harness.now_ms)
        identity = manifest["metadata"]["name"]
        metadata = {**manifest["metadata"], "uid": f"u{self.version}", "creationTimestamp": now}
        body: dict[str, Any] = {**manifest, "metadata": metadata}
        if kind is PODS:
            self.harness.log.append(f"create {identity}")
            self.incarnations.append((identity, incarnation_of(body)))
            state = {"running": {"startedAt": now}}
            body["status"] = {"phase": "Running", "containerStatuses": [{"name": CONTAINER, "state": state}]}
        return self.put(kind.plural, body)

    def apply(self, kind: Kind, manifest: Mapping[str, Any], subresource: str = "") -> dict[str, Any]:
        known = self.objects.get((kind.plural, manifest["metadata"]["name"]))
        if known is None:
            return self.put(kind.plural, manifest)
        if subresource:
            return self.put(
                kind.plural, {**known, "status": {**known.get("status", {}), **manifest["status"]}}
            )
        return self.put(kind.plural, {**known, "metadata": {**known["metadata"], **manifest["metadata"]}})

    def merge(self, kind: Kind, namespace: str | None, name: str, patch: Mapping[str, Any]) -> dict[str, Any]:
        known = self.get(kind, namespace, name)
        added = patch["metadata"]
        annotations = {**(known["metadata"].get("annotations") or {}), **added.get("annotations", {})}
        metadata = {**known["metadata"], **added, "annotations": annotations}
        if kind is PODS and LEAVING in added.get("annotations", {}):
            mark = added["annotations"][LEAVING]
            self.harness.log.append(f"mark {name} {(mark or '').partition('/')[0]}".strip())
        return self.put(kind.plural, {**known, "metadata": metadata})

    def delete(self, kind: Kind, namespace: str | None, name: str, uid: str) -> None:
        known = self.objects[kind.plural, name]
        assert known["metadata"]["uid"] == uid
        if known["status"]["phase"] != "Running":
            self.harness.log.append(f"remove {name}")
            self.gone(kind.plural, name)
        elif "deletionTimestamp" not in known["metadata"]:
            self.harness.log.append(f"terminate {name}")
            metadata = {**known["metadata"], "deletionTimestamp": stamp(self.harness.now_ms)}
            self.put(kind.plural, {**known, "metadata": metadata})


def stamp(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def incarnation_of(body: Mapping[str, Any]) -> str:
    started = datetime.fromisoformat(body["metadata"]["creationTimestamp"])
    return str(PodIncarnation(body["metadata"]["uid"], f"{int(started.timestamp() * 1000):016x}"))


class KubernetesHarness:
    def __init__(self, folder: Path, api: FakeApi | None = None, now_ms: int = 0) -> None:
        self.log: list[str] = []
        # The platform compares it with the real clock.
        self.now_ms = now_ms or time.time_ns() // 1_000_000
        self.stale = False
        self.tasks: Mapping[str, int] = {}
        self.folder = folder
        self.store = Store(lambda name: None)
        self.api = api or FakeApi(self)
        self.api.harness = self
        self.leader = FakeLeader(self.log, self._projection)
        options = OperatorOptions("test", "me", Defaults("image", "kafka:9092"))
        self.platform = KubernetesPlatform(
            NAME, self.store, cast(Api, self.api), options, folder, Outputs(self.store)
        )
        self.loop = WorkerLoop(NAME, self.platform, 0.01, clock_of(self), self.leader.start)
        for (plural, _), body in [*self.api.objects.items()]:
            self.api.put(plural, body)

    def _projection(self) -> dict[str, Any]:
        return {**projection_of(self, self.tasks), "incarnations": self.api.incarnations}

    @property
    def _incarnations(self) -> Mapping[str, str]:
        pods = {name: body for (plural, name), body in self.api.objects.items() if plural == "pods"}
        return {name: incarnation_of(body) for name, body in pods.items()}

    def ask(self, asked: Worker, *connectors: Connector) -> None:
        resources: list[tuple[str, Worker | Connector]] = [("workers", asked)]
        for plural, resource in [*resources, *(("connectors", each) for each in connectors)]:
            name = resource.metadata.name
            known = self.api.objects.get((plural, name), {"metadata": {"finalizers": []}})
            generation = known["metadata"].get("generation", 0) + 1
            metadata = {**known["metadata"], "name": name, "namespace": "default", "uid": f"uid-{name}"}
            metadata |= {"generation": generation, "creationTimestamp": "2026-01-01T00:00:00Z"}
            spec = resource.spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
            body = {**known, "kind": type(resource).__name__, "metadata": metadata, "spec": spec}
            self.api.put(plural, body)

    def delete(self) -> None:
        known = self.api.objects["workers", "lake"]
        metadata = {**known["metadata"], "deletionTimestamp": stamp(self.now_ms)}
        self.api.put("workers", {**known, "metadata": metadata})

    def end(self, identity: str) -> None:
        body = self.api.objects["pods", identity]
        times = {"startedAt": body["metadata"]["creationTimestamp"], "finishedAt": stamp(self.now_ms)}
        state = {"terminated": {**times, "exitCode": 1, "message": self._incarnations[identity]}}
        status = {"phase": "Failed", "containerStatuses": [{"name": CONTAINER, "state": state}]}
        self.api.put("pods", {**body, "status": status})
        if "deletionTimestamp" in body["metadata"]:
            self.api.gone("pods", identity)

    def members(self) -> Mapping[str, str]:
        names = self._incarnations
        running = {name for name in names if self.api.objects["pods", name]["status"]["phase"] == "Running"}
        return {name: names[name] for name in sorted(running)}

    def again(self) -> "KubernetesHarness":
        return KubernetesHarness(self.folder, self.api, self.now_ms)

    def own(self, **tasks: int) -> None:
        self.tasks = {name.replace("_", "-"): number for name, number in tasks.items()}

    def is_kept(self) -> bool:
        """Whether the Worker has our finalizer."""
        return FINALIZER in self.api.objects["workers", "lake"]["metadata"]["finalizers"]
