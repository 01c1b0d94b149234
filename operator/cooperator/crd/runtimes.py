"""Fields of a Worker that are for one runtime only and are refused with the other."""

from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from cooperator.crd.rules import Rule


@dataclass(frozen=True, slots=True)
class OnlyFor:
    """``field`` of the spec is for ``runtime`` alone. ``untouched`` is CEL that holds if it is unused."""

    runtime: str
    field: str
    untouched: str
    why: str

    @property
    def message(self) -> str:
        return f"{self.field} is for runtime: {self.runtime}; {self.why}"

    @property
    def rule(self) -> Rule:
        return Rule(f"self.runtime == '{self.runtime}' || ({self.untouched})", self.message, f".{self.field}")


_NO_SPARK: Final = "stock workers have no Spark: remove it"
ONLY_FOR: Final = (
    OnlyFor("spark", "checkpointLocation", "!has(self.checkpointLocation)", _NO_SPARK),
    OnlyFor("spark", "checkpointVolume", "!has(self.checkpointVolume)", _NO_SPARK),
    OnlyFor(
        "spark",
        "spark",
        # The server cannot check conf, whose values may be of any type.
        "self.spark.heapMb == 1024 && "
        "(!has(self.spark.packages) || size(self.spark.packages) == 0) && "
        "(!has(self.spark.jars) || size(self.spark.jars) == 0)",
        "stock workers have no Spark: remove it, and use connect",
    ),
    OnlyFor(
        "spark",
        "envAllowed",
        "!has(self.envAllowed) || size(self.envAllowed) == 0",
        "stock workers use config.providers in connect.config: remove it",
    ),
    OnlyFor(
        "spark",
        "allowedPaths",
        "!has(self.allowedPaths) || size(self.allowedPaths) == 0",
        "stock workers have none: remove it",
    ),
    OnlyFor(
        "spark",
        "allowedFileReferences",
        "!has(self.allowedFileReferences) || size(self.allowedFileReferences) == 0",
        "stock workers use config.providers in connect.config: remove it",
    ),
    OnlyFor("spark", "capacity", "self.capacity == 1.0", "all stock workers count equally: remove it"),
    OnlyFor("spark", "leaseMs", "self.leaseMs == 40000", "stock workers have no lease: remove it"),
    OnlyFor(
        "spark",
        "revocationTimeoutMs",
        "self.revocationTimeoutMs == 60000",
        "stock workers have connect.hungAfterMs: remove it",
    ),
    OnlyFor("connect", "connect", "!has(self.connect)", "remove it, or use this runtime"),
    OnlyFor(
        "connect",
        "fencing",
        "self.fencing == 'Strict'",
        "members on Spark are always fenced by their lease: remove it",
    ),
    OnlyFor(
        "connect",
        "deletionPolicy",
        "self.deletionPolicy == 'Delete'",
        "members on Spark are deleted with their Worker: remove it",
    ),
)


def misplaced(spec: BaseModel, runtime: str) -> str:
    """The error text for the first field of ``spec`` that is not for ``runtime``; empty if there is none."""
    fields: dict[str, tuple[Any, Any]] = {
        info.alias or name: (getattr(spec, name), info.get_default(call_default_factory=True))
        for name, info in type(spec).model_fields.items()
    }
    for only in ONLY_FOR:
        is_set, default = fields[only.field]
        if only.runtime != runtime and is_set != default:
            return only.message
    return ""
