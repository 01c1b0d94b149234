"""Executors as pods (``spark.master: k8s://…``): the driver's settings, and the process in such a pod.

Executors are owned by the driver's pod, and deleted with it. But a member that dies restarts in the same pod,
and Spark would leave the executors of the previous incarnation: they end when they lose their driver, but
their pods stay. So each incarnation removes them before it creates its own.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from cooperator.connectors.options import OptionError, Problem

SCHEME: Final = "k8s://"
_DRIVER_POD: Final = "spark.kubernetes.driver.pod.name"
_DRIVER_LABEL: Final = "cooperator.dev/driver"
_BACKEND: Final = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_JAVA_OPTION: Final = "SPARK_JAVA_OPT_"
_ARGUMENTS: Final = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
"""Arguments of an executor's process, and the variables in which Spark passes them to its pod."""
_PROTECTED: Final = ("spark.authenticate", "spark.network.crypto.enabled", "spark.io.encryption.enabled")
_NEEDED: Final = {
    "spark.kubernetes.container.image": "set it to a worker image of this version",
    "spark.driver.host": "set it to the address at which pods reach this member",
}
"""Settings that the operator sets on its members, and that other members must set themselves."""


def executor_settings(user: Mapping[str, str]) -> dict[str, str]:
    """Returns defaults for executors in pods; ``user`` overrides them.

    Raises ``OptionError`` for missing settings without a default.
    """
    master = user["spark.master"]
    problems = [
        Problem(f"spec.spark.conf[{name}]", None, f"is required with spark.master {master}", remedy)
        for name, remedy in _NEEDED.items()
        if not user.get(name)
    ]
    if problems:
        raise OptionError(problems)
    conf = {
        "spark.executor.instances": "1",
        # Spark ends a driver that has ever lost some executors; a member runs for months.
        "spark.executor.failuresValidityInterval": "1h",
        # These spare members the rights for two kinds of objects. They carry files of a manually installed
        # Spark, and the address of a driver that has none of its own.
        "spark.kubernetes.executor.disableConfigMap": "true",
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
    }
    if user.get("spark.authenticate", "true") != "false":
        # Without authentication, any client of the driver's port could join as an executor, read rows and run
        # code. Spark generates a secret per driver and passes it to executors in an environment variable,
        # unless it is in a file.
        conf |= dict.fromkeys(_PROTECTED, "true")
    if pod := user.get(_DRIVER_POD):
        conf[f"spark.kubernetes.executor.label.{_DRIVER_LABEL}"] = pod
    return conf


def remove_executors(jvm: Any, conf: Mapping[str, str], spark_conf: Any) -> None:
    """Deletes the pods that earlier incarnations of this member's pod have left.

    It uses Spark's own client, and so Spark's access. Raises ``OptionError`` when it is forbidden.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    pod = conf.get(_DRIVER_POD)
    if not conf["spark.master"].startswith(SCHEME) or not pod:
        return
    kubernetes = jvm.org.apache.spark.deploy.k8s
    kinds = getattr(kubernetes, "SparkKubernetesClientFactory$ClientType$")
    client = kubernetes.SparkKubernetesClientFactory.createKubernetesClient(
        conf["spark.master"].removeprefix(SCHEME),
        jvm.scala.Option.apply(conf.get("spark.kubernetes.namespace")),
        "spark.kubernetes.authenticate",
        getattr(kinds, "MODULE$").Driver(),
        spark_conf._jconf,
        jvm.scala.Option.empty(),
    )
    try:
        client.pods().withLabel(_DRIVER_LABEL, pod).delete()
    except (Py4JJavaError, PySparkException) as error:
        # PySparkException, once there has been a context in this process.
        said = str(error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else error)
        if "forbidden" not in said.lower():
            raise
        remedy = "bind its ServiceAccount to the Role of examples/recipes/executors"
        raise OptionError([Problem("spec.serviceAccountName", None, said, remedy)]) from None
    finally:
        client.close()


def executor_command(environment: Mapping[str, str], java: Path, jars: Path) -> list[str]:
    """Returns the command of an executor, from Spark's variables.

    ``jars`` is the directory of Spark's own jars. Raises ``ValueError``, which names missing variables.
    """
    missing = [name for name in (*_ARGUMENTS.values(), "SPARK_EXECUTOR_MEMORY") if not environment.get(name)]
    if missing:
        raise ValueError(
            f"{', '.join(missing)} not set: only run this command in pods that Spark creates, where Spark "
            "sets them"
        )
    return [
        str(java),
        *_java_options(environment),
        f"-Xmx{environment['SPARK_EXECUTOR_MEMORY']}",
        *("-cp", os.pathsep.join(filter(None, [environment.get("SPARK_EXTRA_CLASSPATH"), f"{jars}/*"]))),
        _BACKEND,
        *(word for argument, name in _ARGUMENTS.items() for word in (argument, environment[name])),
    ]


def _java_options(environment: Mapping[str, str]) -> Iterator[str]:
    numbers = sorted(
        int(number)
        for name in environment
        if name.startswith(_JAVA_OPTION) and (number := name.removeprefix(_JAVA_OPTION)).isdecimal()
    )
    return (environment[f"{_JAVA_OPTION}{number}"] for number in numbers)
