"""A kubelet without containers: the pods of one namespace as processes, reported to a real API server.

It does what the operator relies on: a status in the kubelet's order and words, container restarts inside a
pod, preStop hooks, SIGTERM and the grace period on deletion, a container's termination message, and the
removal of the object when nothing runs any more. Members run inline: no Spark. Stock Connect workers are real
ones: java with the jars of the version replaces their image's script.
"""

import base64
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cooperator.artifacts import find_java, resolve, use_archive
from cooperator.controller.names import SETTLED
from tests.harness.forked import ForkedProcess
from tests.kubernetes.api import Api, ApiError

_HEARTBEAT_S = 5.0
_numbers = itertools.count()
STOCK_CLASSES = {"kafka": "connect-4", "connect-3.9": "connect-3.9"}
_STOCK_MAIN = "org.apache.kafka.connect.cli.ConnectDistributed"


@dataclass
class Container:
    """A pod on this machine. ``folder`` has its emptyDir and its log."""

    uid: str
    name: str
    folder: Path
    args: list[str]
    grace_s: int
    process: subprocess.Popen[bytes] | ForkedProcess | None = None
    started: str = ""
    restarts: int = 0
    last: dict[str, Any] = field(default_factory=dict)
    told_at: float | None = None
    ended_at: float = 0.0
    """When its process was last found to have ended (time.monotonic())."""
    reported: Any = None
    evicted: bool = False
    """Its node has evicted it: it has failed for good."""
    address: str = ""
    """The reported address; its process listens on this machine's own."""
    environment: dict[str, str] = field(default_factory=dict)
    """The variables of a stock worker, which is not our program."""
    variables: dict[str, str] = field(default_factory=dict)
    """The variables of a member of ours."""
    pre_stop: list[str] = field(default_factory=list)
    """The preStop command, which runs before SIGTERM."""
    stopping: subprocess.Popen[bytes] | None = None
    never_restarted: bool = False

    @property
    def has_run_once(self) -> bool:
        return self.evicted or (self.never_restarted and bool(self.last))


class Kubelet:
    """Runs the pods of ``namespace`` as node ``node`` from ``start`` to ``stop``.

    While ``frozen`` is set it neither reports nor acts; its processes run on. ``restart_s`` is the pause
    before a container restarts. ``labels`` are its node's. ``takes`` decides by name whether an unscheduled
    pod comes to this node.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        node: str,
        labels: Mapping[str, str] | None = None,
        takes: Callable[[str], bool] = lambda pod: True,
    ) -> None:
        self.labels = dict(labels or {})
        self.takes = takes
        self.api = api
        self.namespace = namespace
        self.node = node
        self.frozen = threading.Event()
        self.restart_s = 0.2
        self.look_s = 0.25
        """Interval of its looks. Each costs the API server 4 ms of processor time."""
        self.forks = True
        """Whether members and operators are forked; otherwise each starts the program."""
        self.reports_signals = True
        """Whether the end of a killed process is reported as such; otherwise as an error of the program."""
        self.containers: dict[str, Container] = {}
        self.reported: list[tuple[str, float]] = []
        """Ends of containers that the API server knows of: pod, and when (time.time()) it was told."""
        self.ended: dict[str, int] = {}
        """Incarnations that have ended, by the members' names of them, and when (ms since the epoch)."""
        self._folder = Path(tempfile.mkdtemp(prefix="cooperator-kubelet-"))
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubelet", daemon=True)

    def start(self) -> None:
        self.api.post("/api/v1/nodes", {"metadata": {"name": self.node, "labels": self.labels}})
        self.report_node()
        self._thread.start()

    @property
    def folder(self) -> Path:
        """The folders of all containers, and the checkpoints that they share."""
        return self._folder

    def stop(self) -> None:
        """Stop, and send SIGKILL to everything that it runs."""
        self._ending.set()
        self._thread.join()
        for container in self.containers.values():
            if container.process is not None:
                _kill(container.process)
        self.api.delete(f"/api/v1/nodes/{self.node}")

    def report_node(self) -> None:
        self._reported_at = time.monotonic()
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": _now()}
        self.api.patch(f"/api/v1/nodes/{self.node}/status", {"status": {"conditions": [ready]}})

    def container(self, pod: str) -> Container:
        """The newest pod of this name."""
        return [c for c in self.containers.values() if c.name == pod][-1]

    def crash(self, pod: str) -> None:
        """Send SIGKILL to the process of a pod."""
        process = self.container(pod).process
        assert process is not None
        _kill(process)

    def evict(self, pod: str) -> None:
        """Act as a node that lacks memory: SIGKILL, and the pod has failed for good. The object stays."""
        container = self.container(pod)
        container.evicted = True
        assert container.process is not None
        _kill(container.process)

    # --- the thread ---

    def _run(self) -> None:
        while not self._ending.wait(self.look_s):
            if not self.frozen.is_set():
                try:
                    self._look()
                except (ApiError, OSError) as error:
                    sys.stderr.write(f"kubelet: {error}\n")

    def _look(self) -> None:
        if time.monotonic() - self._reported_at > _HEARTBEAT_S:
            self.report_node()
        listed = self.api.get(f"/api/v1/namespaces/{self.namespace}/pods")["items"]
        pods = {pod["metadata"]["uid"]: pod for pod in listed}
        for uid, pod in pods.items():
            if not pod["spec"].get("nodeName"):
                if not pod["metadata"].get("deletionTimestamp") and self.takes(pod["metadata"]["name"]):
                    self._bind(pod)
                continue
            if pod["spec"]["nodeName"] == self.node:
                self._care(uid, pod)
        for uid in [uid for uid in self.containers if uid not in pods]:
            # Deleted by force: its containers are told to end, and nobody is notified.
            container = self.containers[uid]
            if container.process is None or container.process.poll() is not None:
                del self.containers[uid]
            elif container.told_at is None:
                self._terminate(container)
            elif time.monotonic() - container.told_at > container.grace_s:
                _kill(container.process)

    def _bind(self, pod: dict[str, Any]) -> None:
        name = pod["metadata"]["name"]
        self.api.post(
            f"/api/v1/namespaces/{self.namespace}/pods/{name}/binding",
            {"metadata": {"name": name}, "target": {"kind": "Node", "name": self.node}},
        )

    def _care(self, uid: str, pod: dict[str, Any]) -> None:
        deleted = pod["metadata"].get("deletionTimestamp") is not None
        container = self.containers.get(uid)
        if container is None:
            if deleted:
                self._remove(pod)
                return
            container = self.containers[uid] = self._adopt(pod)
            self._launch(container)
        process = container.process
        ended = process is not None and process.poll() is not None
        if process is not None and ended:
            self._take_down(container, process)
        if container.has_run_once and container.process is None and not deleted:
            self._report(pod, container, {"terminated": container.last})
        elif deleted and container.process is None:
            self._report(pod, container, {"terminated": container.last} if container.last else {})
            self._remove(pod)
            del self.containers[uid]
        elif deleted and container.told_at is None:
            self._terminate(container)
        elif deleted and process is not None and container.told_at is not None:
            if container.stopping is not None and container.stopping.poll() is not None:
                container.stopping = None
                process.send_signal(signal.SIGTERM)
            if time.monotonic() - container.told_at > container.grace_s:
                _kill(process)
        elif container.process is None:
            self._report(pod, container, {"waiting": {"reason": "CrashLoopBackOff"}})
            if time.monotonic() - container.ended_at >= self.restart_s:
                container.restarts += 1
                self._launch(container)
        if uid in self.containers and container.process is not None:
            self._report(pod, container, {"running": {"startedAt": container.started}})

    def _adopt(self, pod: dict[str, Any]) -> Container:
        metadata, spec = pod["metadata"], pod["spec"]
        folder = self._folder / metadata["uid"]
        folder.mkdir(exist_ok=True)
        (folder / "log").touch()  # Also a container that never starts has a log.
        if "command" in spec["containers"][0]:
            return self._adopt_stock(pod, folder)
        mounts = self._mount_volumes(spec, folder)
        values = {"POD_NAME": metadata["name"], "POD_UID": metadata["uid"], "POD_IP": "127.0.0.1"}
        args = [_expand(word, {**values, **mounts}) for word in spec["containers"][0]["args"]]
        args[args.index("--listen") + 1] = "127.0.0.1:0"
        args[args.index("--state-dir") + 1] = str(folder / "state")
        args[args.index("--checkpoints") + 1] = str(self._folder / "checkpoints")
        grace_s = spec["terminationGracePeriodSeconds"]
        number = next(_numbers)
        address = f"10.199.{number // 250}.{1 + number % 250}"
        variables = {
            **{each["name"]: each["value"] for each in spec["containers"][0]["env"] if "value" in each},
            **values,
            "POD_NAMESPACE": metadata["namespace"],
            "HOME": os.environ.get("HOME", "/"),
        }
        return Container(
            metadata["uid"], metadata["name"], folder, args, grace_s, address=address, variables=variables
        )

    def _adopt_stock(self, pod: dict[str, Any], folder: Path) -> Container:
        """Prepare a worker with an address of its own; ``java`` replaces the script of its image."""
        metadata, spec = pod["metadata"], pod["spec"]
        [container] = spec["containers"]
        number = next(_numbers)
        address = f"127.{os.getpid() % 200 + 1}.{number // 250}.{1 + number % 250}"
        secrets = self._mount_volumes(spec, folder)
        [volume] = (volume for volume in spec["volumes"] if "downwardAPI" in volume)
        for item in volume["downwardAPI"]["items"]:
            name = item["fieldRef"]["fieldPath"].partition("'")[2].rstrip("']")
            text = metadata["annotations"][name].replace("//0.0.0.0", f"//{address}")
            (folder / item["path"]).write_text(_expand(text, secrets))
        mounts = {m["name"]: m["mountPath"] for m in container["volumeMounts"]}
        said = {variable["name"]: variable.get("value", "") for variable in container["env"]}
        environment = {**said, "POD_NAME": metadata["name"], "POD_IP": address}
        words = (said.get(f"KAFKA_{kind}", "") for kind in ("HEAP_OPTS", "LOG4J_OPTS", "OPTS"))
        options = [word.replace(mounts["connect"], str(folder)) for part in words for word in part.split()]
        bundle = "connect-3.9" if ":3.9" in container["image"] else "kafka"
        class_path = resolve(bundle)
        return Container(
            metadata["uid"],
            metadata["name"],
            folder,
            [
                *(str(find_java()), *options, *use_archive(STOCK_CLASSES[bundle], class_path)),
                *(f"-Dcooperator.identity={metadata['name']}", f"-Dcooperator.incarnation={metadata['uid']}"),
                *("-cp", os.pathsep.join(map(str, class_path)), _STOCK_MAIN),
                str(folder / Path(container["command"][1]).name),
            ],
            spec["terminationGracePeriodSeconds"],
            address=address,
            environment=environment,
            pre_stop=container["lifecycle"]["preStop"]["exec"]["command"],
            never_restarted=spec["restartPolicy"] == "Never",
        )

    def _mount_volumes(self, spec: dict[str, Any], folder: Path) -> dict[str, str]:
        """Write the content of Secret and ConfigMap volumes; returns mount path to the folder in its place.

        A missing Secret or key is an error like the kubelet's: the pod waits.
        """
        [container] = spec["containers"]
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        found = {}
        for volume in (volume for volume in spec["volumes"] if "secret" in volume):
            source, at = volume["secret"], folder / volume["name"]
            path = f"/api/v1/namespaces/{self.namespace}/secrets/{source['secretName']}"
            data = self.api.get(path).get("data") or {}
            if missing := [item["key"] for item in source["items"] if item["key"] not in data]:
                raise OSError(f"references non-existent secret key: {missing[0]}")
            at.mkdir(exist_ok=True)
            for item in source["items"]:
                (at / item["path"]).write_bytes(base64.b64decode(data[item["key"]]))
            found[mounts[volume["name"]]] = str(at)
        for volume in (volume for volume in spec["volumes"] if "configMap" in volume):
            path = f"/api/v1/namespaces/{self.namespace}/configmaps/{volume['configMap']['name']}"
            body, at = self.api.get(path), folder / volume["name"]
            at.mkdir(exist_ok=True)
            for name, text in (body.get("data") or {}).items():
                (at / name).write_text(text)
            for name, encoded in (body.get("binaryData") or {}).items():
                (at / name).write_bytes(base64.b64decode(encoded))
            found[mounts[volume["name"]]] = str(at)
        return found

    def _launch(self, container: Container) -> None:
        (container.folder / "last-words").touch()
        container.started = _now()
        environment = {
            **os.environ,
            **container.environment,
            **container.variables,
            "COOPERATOR_RUNTIME": "inline",
            "COOPERATOR_LAST_WORDS": str(container.folder / "last-words"),
        }
        if not container.environment and self.forks:
            container.process = ForkedProcess(
                container.args, container.folder / "log", environment, new_session=True
            )
            return
        with (container.folder / "log").open("ab") as log:
            program = [] if container.environment else [sys.executable, "-m", "cooperator.cli"]
            container.process = subprocess.Popen(
                [*program, *container.args],
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=environment,
            )

    def _take_down(self, container: Container, process: subprocess.Popen[bytes] | ForkedProcess) -> None:
        killed = 128 - process.returncode if self.reports_signals else 1
        container.last = {
            "exitCode": process.returncode if process.returncode >= 0 else killed,
            "reason": "Error" if process.returncode else "Completed",
            "startedAt": container.started,
            "finishedAt": _now(),
            "message": (container.folder / "last-words").read_text(),
        }
        container.process = None
        container.ended_at = time.monotonic()
        # Further lines tell what it did last.
        incarnation = container.last["message"].partition("\n")[0].strip()
        self.ended[incarnation or container.uid] = time.time_ns() // 1_000_000
        (container.folder / "last-words").write_text("")

    def _terminate(self, container: Container) -> None:
        container.told_at = time.monotonic()
        if container.pre_stop and container.process is not None:
            with (container.folder / "pre-stop").open("ab") as log:
                container.stopping = subprocess.Popen(
                    container.pre_stop, env={**os.environ, **container.environment}, stdout=log, stderr=log
                )
        elif container.process is not None:
            container.process.send_signal(signal.SIGTERM)

    def _report(self, pod: dict[str, Any], container: Container, state: dict[str, Any]) -> None:
        running = "running" in state
        conditions = pod.get("status", {}).get("conditions") or ()
        gates = [c for c in conditions if c["type"] not in ("ContainersReady", "Ready")]
        ready = running and any(c["type"] == SETTLED and c["status"] == "True" for c in gates)
        status = {
            "phase": "Running" if "terminated" not in state else "Failed",
            "podIP": container.address,
            "podIPs": [{"ip": container.address}],
            "containerStatuses": [
                {
                    "name": "worker",
                    "image": "none",
                    "imageID": "none",
                    "ready": running,
                    "started": running,
                    "restartCount": container.restarts,
                    "state": state,
                    "lastState": {"terminated": container.last} if container.last else {},
                }
            ],
            "conditions": [
                *gates,
                {"type": "ContainersReady", "status": str(running), "lastTransitionTime": _now()},
                {"type": "Ready", "status": str(ready), "lastTransitionTime": _now()},
            ],
        }
        if container.reported != (state, ready):
            name = pod["metadata"]["name"]
            path = f"/api/v1/namespaces/{self.namespace}/pods/{name}/status"
            told_at = time.time()
            self.api.patch(path, {"metadata": {"uid": container.uid}, "status": status})
            container.reported = (state, ready)
            if not running and container.last:
                self.reported.append((container.name, told_at))

    def _remove(self, pod: dict[str, Any]) -> None:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        self.api.delete(
            f"/api/v1/namespaces/{self.namespace}/pods/{name}",
            {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}},
        )


def _expand(word: str, values: dict[str, str]) -> str:
    """Replace variables, given by name, and paths of the container, given as they are."""
    for name, value in values.items():
        word = word.replace(name if name.startswith("/") else f"$({name})", value)
    return word


def _kill(process: subprocess.Popen[bytes] | ForkedProcess) -> None:
    if process.poll() is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            # A process that was forked just now has no group of its own yet.
            os.kill(process.pid, signal.SIGKILL)
        process.wait(30)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
