"""Random parts of pods that an API server accepts, with many entries of the same keys."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

NAMES = ("state", "tmp", "a", "b")
few = st.sampled_from(NAMES)
paths = st.sampled_from(["/state", "/tmp", "/x", "/y"])


def _unique(entry: st.SearchStrategy[Any], key: Callable[[Any], Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(entry, max_size=4, unique_by=key)


_env = _unique(
    st.fixed_dictionaries({"name": st.sampled_from(["HOME", "TZ", "A"])}, optional={"value": few}),
    lambda e: e["name"],
)
_ports = _unique(
    st.fixed_dictionaries(
        {"containerPort": st.sampled_from([8084, 9000, 9001])},
        optional={"protocol": st.sampled_from(["TCP", "UDP"]), "hostIP": st.just("127.0.0.1")},
    ),
    lambda e: (e["containerPort"], e.get("protocol", "TCP")),
)
_mounts = _unique(
    st.fixed_dictionaries(
        {"name": few, "mountPath": paths}, optional={"subPath": few, "readOnly": st.booleans()}
    ),
    lambda e: e["mountPath"],
)
_parts = {
    "env": _env,
    "ports": _ports,
    "volumeMounts": _mounts,
    "workingDir": st.just("/tmp"),
    "securityContext": st.fixed_dictionaries(
        {}, optional={"runAsUser": st.just(7), "capabilities": st.just({"drop": ["ALL"]})}
    ),
}
_containers = _unique(
    st.fixed_dictionaries({"name": st.sampled_from(["worker", "log", "proxy"])}, optional=_parts).map(
        lambda made: made if made["name"] == "worker" else {"image": "i", **made}
    ),
    lambda e: e["name"],
)
_aliases = _unique(
    st.fixed_dictionaries(
        {"ip": st.sampled_from(["10.0.0.1", "10.0.0.2"]), "hostnames": st.lists(few, min_size=1, max_size=2)}
    ),
    lambda e: e["ip"],
)
_spread = _unique(
    st.fixed_dictionaries(
        {
            "topologyKey": st.sampled_from(["zone", "topology.kubernetes.io/zone"]),
            "whenUnsatisfiable": st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
            "maxSkew": st.integers(1, 3),
        },
        optional={"labelSelector": st.just({"matchLabels": {"a": "b"}})},
    ),
    lambda e: (e["topologyKey"], e["whenUnsatisfiable"]),
)
_tolerations = st.lists(
    st.fixed_dictionaries(
        {"key": few, "operator": st.just("Exists")}, optional={"effect": st.just("NoSchedule")}
    ),
    max_size=2,
)
_volumes = _unique(
    st.fixed_dictionaries({"name": few, "emptyDir": st.sampled_from([{}, {"sizeLimit": "1Gi"}])}),
    lambda e: e["name"],
)


def templates() -> st.SearchStrategy[dict[str, Any]]:
    """Values that a user may write into ``spec.template.spec``."""
    return st.fixed_dictionaries(
        {},
        optional={
            "containers": _containers,
            "initContainers": _containers.map(
                lambda made: [{"image": "i", **each, "name": f"{each['name']}-first"} for each in made]
            ),
            "hostAliases": _aliases,
            "topologySpreadConstraints": _spread,
            "tolerations": _tolerations,
            "volumes": _volumes,
            "nodeSelector": st.dictionaries(few, few, max_size=2),
            "schedulingGates": st.lists(
                st.fixed_dictionaries({"name": few}), max_size=2, unique_by=lambda e: e["name"]
            ),
        },
    )
