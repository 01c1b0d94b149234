"""The cluster and namespace of a command, found as kubectl does: options, then the kubeconfig's context."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kubernetes import client, config

from cooperator.controller.api.client import Api

FIELD_MANAGER: Final = "kubectl-cooperator"
"""Marks fields that a person has set with these commands."""


_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class NoCluster(Exception):
    """No cluster is configured. The message contains the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """``namespace`` applies without -A. ``kubectl_options`` make kubectl reach the cluster of ``api``."""

    api: Api
    namespace: str
    kubectl_options: Sequence[str] = ()


def connect(
    namespace: str | None = None, context: str | None = None, kubeconfig: Path | None = None
) -> ClusterAddress:
    """Raises NoCluster. Sends no request to the cluster yet."""
    configuration = client.Configuration()
    if kubeconfig is None and context is None and not _has_kubeconfig() and (_ACCOUNT / "token").exists():
        # Inside a pod, use its service account.
        try:
            config.load_incluster_config(client_configuration=configuration)
        except config.ConfigException as error:
            raise NoCluster(f"the pod's service account cannot be used: {error}") from None
        own = (_ACCOUNT / "namespace").read_text().strip()
        return ClusterAddress(_api(configuration), namespace or own)
    file = _files(kubeconfig)
    try:
        contexts, active = config.list_kube_config_contexts(file)
        chosen = _context(contexts, active, context)
        config.load_kube_config(file, chosen["name"], client_configuration=configuration)
    except (config.ConfigException, OSError) as error:
        raise NoCluster(
            f"{_kubeconfig_words(kubeconfig)} names no cluster ({_first_line(error)}): name a file by "
            "--kubeconfig or the variable KUBECONFIG, and a context in it by --context"
        ) from None
    options = [
        *(("--kubeconfig", str(kubeconfig)) if kubeconfig is not None else ()),
        *(("--context", context) if context is not None else ()),
    ]
    said = (chosen.get("context") or {}).get("namespace")
    return ClusterAddress(_api(configuration), namespace or said or "default", options)


def contexts_of(kubeconfig: Path | None) -> list[str]:
    """The names of all contexts. Raises ConfigException, OSError."""
    contexts, _ = config.list_kube_config_contexts(_files(kubeconfig))
    return [each["name"] for each in contexts]


def _context(contexts: Sequence[Any], active: Any, name: str | None) -> Mapping[str, Any]:
    if name is None:
        found: Mapping[str, Any] = active
        return found
    for each in contexts:
        if each["name"] == name:
            named: Mapping[str, Any] = each
            return named
    known = ", ".join(each["name"] for each in contexts) or "none"
    raise NoCluster(f"--context {name}: the kubeconfig has no such context; it has: {known}")


def _api(configuration: Any) -> Api:
    return Api(4, configuration, FIELD_MANAGER)


def _files(kubeconfig: Path | None) -> str:
    """One file, or several in the syntax of KUBECONFIG."""
    return str(kubeconfig or os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config")


def _has_kubeconfig() -> bool:
    return any(Path(file).exists() for file in _files(None).split(os.pathsep))


def _kubeconfig_words(kubeconfig: Path | None) -> str:
    return f"kubeconfig {_files(kubeconfig)}"


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]
