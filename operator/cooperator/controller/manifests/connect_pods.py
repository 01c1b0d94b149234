"""The parts of a pod that only stock Connect workers need. Pure.

The image is the user's, unmodified: its own script starts the worker, with settings and other files that the
pod carries itself, as annotations (docs/decisions/034).
"""

import json
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from cooperator.connect import jvm
from cooperator.connect.log4j import logging_files
from cooperator.connect.properties import (
    POD,
    POD_PROVIDERS,
    SecretFiles,
    leader_trust,
    properties_text,
    rolling,
    security_settings,
    worker_settings,
)
from cooperator.controller.manifests.leader_ca import TRUST_STORE
from cooperator.controller.manifests.secret_mounts import CA, CERTIFICATE, SASL, TOKEN_CA, token_url
from cooperator.controller.names import GROUP
from cooperator.crd import Worker

Manifest = dict[str, Any]
RENDER_VERSION: Final = 2
"""Version of the template of stock workers (see ``pods.RENDER_VERSION``). From 2 on, the consumers of sinks
rebalance cooperatively."""
_COOPERATIVE_SINKS: Final = 2
IMAGES: Final[Mapping[int, str]] = {1: "apache/kafka:4.3.1", 2: "apache/kafka:4.3.1"}
"""Default images by template version: an upgrade of the operator replaces no member."""
USER_ID: Final = 1000
"""The user id in Kafka's own images; for another image, set it in the pod template."""
PORT: Final = POD.port
FILES: Final = f"{GROUP}/file-"
"""Prefix of the annotations that hold the worker's files, by name."""

_FOLDER: Final = PurePosixPath("/etc/cooperator/connect")
_SETTINGS: Final = "worker.properties"
_LOGS: Final = "/tmp/logs"
PATIENCE_S: Final = 10


def image(render_version: int) -> str:
    """Returns the default image; the newest known one for a version that a later operator has pinned."""
    return IMAGES.get(render_version, IMAGES[max(IMAGES)])


_PRE_STOP: Final = """\
command -v bash > /dev/null || exec sleep PATIENCE
exec bash -c '
owned() {
  answer=
  exec 3<> "/dev/tcp/$POD_IP/PORT" || return 1
  printf "GET /connectors?expand=status HTTP/1.0\\r\\nHost: $POD_IP\\r\\n\\r\\n" >&3
  IFS= read -r -d "" -t 5 answer <&3
  exec 3>&-
  [[ $answer == HTTP/*" 200 "* ]] || return 1
  count=0
  for state in RUNNING PAUSED RESTARTING; do
    mark="\\"state\\":\\"$state\\",\\"worker_id\\":\\"$POD_IP:PORT\\""
    rest=${answer//"$mark"/}
    count=$((count + (${#answer} - ${#rest}) / ${#mark}))
  done
}
least=-1
changed=$SECONDS
while ((SECONDS < LIMIT)); do
  if owned 2> /dev/null; then
    ((count == 0)) && exit 0
    if ((least < 0 || count < least)); then
      least=$count
      changed=$SECONDS
    fi
  fi
  ((SECONDS - changed >= PATIENCE)) && exit 0
  sleep 1
done
'
"""
"""Delays SIGTERM while the leader takes the worker's work away: until the worker reports that it owns
nothing, or until nothing was taken for some seconds because nobody does (a held roll, or no operator)."""


def files(
    worker: Worker, bootstrap_servers: str, render_version: int, verifies_leader: bool = False
) -> dict[str, str]:
    """The worker's files by name. They are the same for all pods and contain no secret."""
    settings = _worker_settings(worker, bootstrap_servers, render_version)
    if verifies_leader:
        settings |= leader_trust(str(TRUST_STORE))
    return {_SETTINGS: properties_text(settings), **logging_files(worker)}


def _worker_settings(worker: Worker, bootstrap_servers: str, render_version: int) -> dict[str, str]:
    kafka = worker.spec.kafka
    oauth = kafka.sasl and kafka.sasl.oauthbearer
    secrets = SecretFiles(
        sasl=str(SASL) if kafka.sasl and kafka.sasl.secret_ref else "",
        ca=str(CA) if kafka.tls and kafka.tls.ca_secret_ref else "",
        certificate=str(CERTIFICATE) if kafka.tls and kafka.tls.certificate_secret_ref else "",
        token_ca=str(TOKEN_CA) if oauth and oauth.ca_secret_ref else "",
        token_url=token_url(oauth) if oauth else "",
    )
    return worker_settings(
        worker,
        bootstrap_servers,
        POD,
        security_settings(kafka, secrets),
        {**POD_PROVIDERS, **secrets.providers},
        cooperative_sinks=render_version >= _COOPERATIVE_SINKS,
    )


def inputs(worker: Worker, render_version: int) -> list[str]:
    """The user's part of what the pods are made from: a change makes the pool roll."""
    in_files = {"config", "topics", "plugin_path", "log_levels"}
    started_with = worker.spec.stock.model_dump(mode="json", exclude={*in_files, "hung_after_ms"})
    settings = rolling(_worker_settings(worker, worker.spec.bootstrap_servers or "", render_version))
    return [properties_text(settings), *logging_files(worker).values(), json.dumps(started_with)]


def annotations(
    worker: Worker, bootstrap_servers: str, render_version: int, verifies_leader: bool
) -> dict[str, str]:
    named = files(worker, bootstrap_servers, render_version, verifies_leader)
    return {f"{FILES}{name}": text for name, text in named.items()}


def volume(worker: Worker) -> Manifest:
    """The volume that shows the annotations as files."""
    items = [
        {"path": name, "fieldRef": {"fieldPath": f"metadata.annotations['{FILES}{name}']"}}
        for name in files(worker, "", RENDER_VERSION)
    ]
    return {"name": "connect", "downwardAPI": {"items": items}}


def mount() -> Manifest:
    return {"name": "connect", "mountPath": str(_FOLDER), "readOnly": True}


def container(worker: Worker) -> Manifest:
    """This runtime's part of the member's container; its identity is in the environment."""
    stock, metrics = worker.spec.stock, worker.spec.stock.metrics
    environment = {
        "KAFKA_HEAP_OPTS": " ".join(jvm.heap_options(worker)),
        "KAFKA_LOG4J_OPTS": " ".join(jvm.logging_options(_FOLDER)),
        "LOG_DIR": _LOGS,
    }
    oauth = worker.spec.kafka.sasl and worker.spec.kafka.sasl.oauthbearer
    login = jvm.login_options(token_url(oauth)) if oauth else ()
    if options := [*login, *jvm.user_options(worker)]:
        environment["KAFKA_OPTS"] = " ".join(options)
    if metrics.jmx_port is not None:
        environment["JMX_PORT"] = str(metrics.jmx_port)
    ports = {"rest": PORT, "jmx": metrics.jmx_port, "metrics": metrics.port}
    return {
        "command": [stock.command, str(_FOLDER / _SETTINGS)],
        "env": [{"name": name, "value": value} for name, value in environment.items()],
        "ports": [{"name": name, "containerPort": port} for name, port in ports.items() if port],
        "lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", pre_stop(worker)]}}},
        "readinessProbe": {
            "httpGet": {"path": "/", "port": PORT},
            "periodSeconds": 5,
            "timeoutSeconds": 5,
            "failureThreshold": 3,
        },
    }


def pre_stop(worker: Worker) -> str:
    """Render ``_PRE_STOP``. The patience includes two heartbeats, by which a worker learns of a round."""
    patience_s = PATIENCE_S + 2 * -(-worker.spec.heartbeat_interval_ms // 1000)
    numbers = {"PATIENCE": patience_s, "LIMIT": -(-worker.spec.drain_timeout_ms // 1000), "PORT": PORT}
    text = _PRE_STOP
    for name, number in numbers.items():
        text = text.replace(name, str(number))
    return text
