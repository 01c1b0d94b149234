"""Executors as pods: the driver's settings, its rights, and the process in an executor's pod."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from threading import Event, Timer
from typing import Any

import psutil
import pytest
import yaml
from py4j import java_gateway, protocol
from pyspark.errors.exceptions.captured import install_exception_handler

from cooperator.connectors.options import OptionError
from cooperator.runtime import RuntimeSettings
from cooperator.runtime.executors import executor_command
from cooperator.runtime.session import SparkHost, spark_conf
from tests.harness.support import eventually
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.fixtures import cluster, namespace

__all__ = ["cluster", "namespace"]

EXAMPLE = Path(__file__).parents[2] / "examples" / "recipes" / "executors" / "executors.yaml"
VARIABLE = "_SPARK_AUTH_SECRET"
"""The environment variable in which Spark passes a generated secret to executors."""
RESTRICTED_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "spec": {
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 10_001,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "executor",
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                },
            }
        ],
    },
}
TOLD = {
    "spark.master": "k8s://https://kubernetes.default.svc",
    "spark.driver.host": "10.0.0.7",
    "spark.kubernetes.container.image": "registry.example/cooperator:1.0",
    "spark.kubernetes.driver.pod.name": "wide-0",
    "spark.kubernetes.namespace": "data",
}
BY_SPARK = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.0.0.7:4040",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "512m",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.8",
    "SPARK_EXECUTOR_POD_NAME": "wide-exec-3",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_JAVA_OPT_0": "-Da=b",
    "SPARK_JAVA_OPT_10": "-Dlast=1",
    "SPARK_JAVA_OPT_2": "-Dwords=with spaces",
}


def test_one_executor_unless_the_user_wants_more(settings: RuntimeSettings) -> None:
    conf = spark_conf(settings, (), TOLD)
    assert conf["spark.executor.instances"] == "1"
    assert conf["spark.kubernetes.executor.label.cooperator.dev/driver"] == "wide-0"
    assert conf["spark.driver.host"] == "10.0.0.7"
    assert "spark.driver.bindAddress" not in conf, "other pods have to reach it"
    more = {"spark.executor.instances": "4", "spark.kubernetes.executor.disableConfigMap": "false"}
    assert spark_conf(settings, (), {**TOLD, **more}).items() >= more.items()
    assert "spark.executor.instances" not in spark_conf(settings, (), {"spark.master": "spark://a:7077"})


def test_settings_that_only_the_operator_knows_must_be_set_outside_of_kubernetes(
    settings: RuntimeSettings,
) -> None:
    with pytest.raises(OptionError) as caught:
        spark_conf(settings, (), {"spark.master": "k8s://https://cluster:6443"})
    assert str(caught.value).splitlines() == [
        "option 'spec.spark.conf[spark.kubernetes.container.image]': is required with spark.master "
        "k8s://https://cluster:6443; set it to a worker image of this version",
        "option 'spec.spark.conf[spark.driver.host]': is required with spark.master "
        "k8s://https://cluster:6443; set it to the address at which pods reach this member",
    ]


def test_an_executor_gets_sparks_arguments_in_their_order() -> None:
    command = executor_command(
        {**BY_SPARK, "SPARK_EXTRA_CLASSPATH": "/own.jar"}, Path("/java"), Path("/jars")
    )
    assert command[:5] == ["/java", "-Da=b", "-Dwords=with spaces", "-Dlast=1", "-Xmx512m"]
    assert command[5:7] == ["-cp", "/own.jar:/jars/*"]
    given = command[8:]
    assert dict(zip(given[::2], given[1::2], strict=True)) == {
        "--driver-url": "spark://CoarseGrainedScheduler@10.0.0.7:4040",
        "--executor-id": "3",
        "--cores": "2",
        "--app-id": "spark-1",
        "--hostname": "10.0.0.8",
        "--resourceProfileId": "0",
        "--podName": "wide-exec-3",
    }


def test_an_executor_started_by_hand_is_refused() -> None:
    without = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    said = subprocess.run(
        [sys.executable, "-m", "cooperator.cli", "executor"],
        env={**without, "SPARK_DRIVER_URL": "spark://a"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert said.returncode == 2
    assert "SPARK_DRIVER_URL" not in said.stderr
    assert "SPARK_EXECUTOR_ID, SPARK_EXECUTOR_CORES" in said.stderr
    assert "only run this command in pods that Spark creates" in " ".join(said.stderr.split())


PROTECTED = ("spark.authenticate", "spark.network.crypto.enabled", "spark.io.encryption.enabled")


def test_driver_and_executors_authenticate_and_encrypt_unless_the_user_wants_otherwise(
    settings: RuntimeSettings,
) -> None:
    conf = spark_conf(settings, (), TOLD)
    assert [conf[name] for name in PROTECTED] == ["true"] * 3
    faster = spark_conf(settings, (), {**TOLD, "spark.io.encryption.enabled": "false"})
    assert [faster[name] for name in PROTECTED] == ["true", "true", "false"]
    # Spark refuses encryption without authentication.
    open_ = spark_conf(settings, (), {**TOLD, "spark.authenticate": "false"})
    assert [open_.get(name) for name in PROTECTED] == ["false", None, None]
    assert not set(PROTECTED) & spark_conf(settings, (), {"spark.master": "local[2]"}).keys()


@pytest.mark.real
@pytest.mark.parametrize(
    "was_there_one_before",
    [
        pytest.param(
            False,
            marks=pytest.mark.long(
                "tests/runtime/test_executors.py::"
                "test_an_account_without_the_right_to_create_pods_is_refused_with_the_role"
            ),
        ),
        True,
    ],
)
def test_an_account_without_the_right_to_create_pods_is_refused_with_the_role(
    cluster: ControlPlane,
    namespace: str,
    settings: RuntimeSettings,
    monkeypatch: pytest.MonkeyPatch,
    was_there_one_before: bool,
) -> None:
    monkeypatch.setattr(java_gateway, "get_return_value", protocol.get_return_value)
    if was_there_one_before:
        install_exception_handler()  # The first context of a process does so.
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig_of(namespace, "default")))
    conf = {
        **TOLD,
        "spark.master": f"k8s://{cluster.url}",
        "spark.driver.host": "127.0.0.1",
        "spark.kubernetes.namespace": namespace,
    }
    host = SparkHost(replace(settings, spark_conf=conf))
    with pytest.raises(OptionError) as caught:
        host.session(Event())
    host.close(30)
    assert "option 'spec.serviceAccountName'" in str(caught.value)
    assert 'cannot deletecollection resource "pods"' in str(caught.value)
    assert "bind its ServiceAccount to the Role of examples/recipes/executors" in str(caught.value)


def of_spark(cluster: ControlPlane, namespace: str) -> Mapping[str, Any]:
    """The pod that Spark has made for its first executor; no kubelet starts it."""

    def made() -> Mapping[str, Any]:
        where = f"/api/v1/namespaces/{namespace}/pods?labelSelector=spark-role%3Dexecutor"
        [pod, *_] = cluster.api.get(where)["items"]
        found: Mapping[str, Any] = pod
        return found

    return eventually(made, 60)


@pytest.mark.long(
    "tests/runtime/test_executors.py::"
    "test_driver_and_executors_authenticate_and_encrypt_unless_the_user_wants_otherwise"
)
@pytest.mark.real
def test_an_executor_joins_its_driver_with_the_secret_and_with_no_other(
    cluster: ControlPlane,
    namespace: str,
    settings: RuntimeSettings,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(java_gateway, "get_return_value", protocol.get_return_value)
    rights = yaml.safe_load_all(EXAMPLE.read_text())
    cluster.apply(
        *({**m, "metadata": {**m["metadata"], "namespace": namespace}} for m in bound(rights, namespace))
    )
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig_of(namespace, "wide")))
    template = tmp_path / "pod.json"
    template.write_text(json.dumps(RESTRICTED_POD))
    conf = {
        **{name: value for name, value in TOLD.items() if name != "spark.kubernetes.driver.pod.name"},
        "spark.master": f"k8s://{cluster.url}",
        "spark.driver.host": "127.0.0.1",
        "spark.kubernetes.namespace": namespace,
        "spark.kubernetes.executor.podTemplateFile": str(template),
    }
    host = SparkHost(replace(settings, spark_conf=conf))
    children: list[subprocess.Popen[bytes]] = []
    try:
        session = host.session(Event())
        pod = of_spark(cluster, namespace)
        [container] = pod["spec"]["containers"]
        given = {each["name"]: each.get("value", "") for each in container["env"]}
        own = given[VARIABLE]
        assert own not in json.dumps([container.get("args"), container.get("command")])

        def start(name: str, **more: str) -> subprocess.Popen[bytes]:
            here = {"SPARK_EXECUTOR_POD_IP": "127.0.0.1", "SPARK_EXECUTOR_POD_NAME": pod["metadata"]["name"]}
            with (tmp_path / f"{name}.log").open("wb") as log:
                child = subprocess.Popen(
                    [sys.executable, "-m", "cooperator.cli", "executor"],
                    env={**os.environ, **given, **here, **more},
                    cwd=tmp_path,
                    stdout=log,
                    stderr=log,
                )
            children.append(child)
            return child

        # The attacker knows everything about the pod except the secret.
        stranger = start("stranger", **{VARIABLE: "another secret than the driver's"})
        assert stranger.wait(90) != 0
        start("own")
        # A job without executors waits for ever, and cannot be interrupted from here.
        limit = Timer(90, session.sparkContext.cancelAllJobs)
        limit.start()
        assert session.range(1000).repartition(3).selectExpr("sum(id)").first()[0] == 499_500
        limit.cancel()
        assert session.sparkContext.getConf().get("spark.network.crypto.enabled") == "true"
        assert all(own.encode() not in argv for argv in arguments(children)), "no process shows it"
    finally:
        for child in children:
            if child.poll() is None:
                child.kill()
            child.wait(10)
        host.close(30)


def bound(rights: Iterable[Any], namespace: str) -> Iterator[Any]:
    """The account of the example, its Role and its binding."""
    for manifest in rights:
        if manifest["kind"] != "Worker":
            for subject in manifest.get("subjects", ()):
                subject["namespace"] = namespace
            yield manifest


def arguments(children: Iterable[subprocess.Popen[bytes]]) -> list[bytes]:
    """The arguments of these processes, of this one and of its driver."""
    pids = [child.pid for child in children if child.poll() is None]
    pids += [each.pid for each in psutil.Process().children(recursive=True)]
    return [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids if Path(f"/proc/{pid}").exists()]
