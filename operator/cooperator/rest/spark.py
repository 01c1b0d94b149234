"""Members on Spark: the connector classes that are installed here, and the offsets that a member reaches."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import cooperator
from cooperator.connectors import find, known_classes, validate
from cooperator.connectors.offsets import Change, encode
from cooperator.connectors.options import OptionError, Options, option_names
from cooperator.connectors.state_query import StateQuery
from cooperator.crd.rules import DNS_SUBDOMAIN
from cooperator.model import SessionKey
from cooperator.rest.answers import RequestRefused
from cooperator.rest.calls import ask
from cooperator.rest.parts import Entries, OffsetChange
from cooperator.wire import sign

_NO_LOGGERS: Final = (
    "log levels of members on Spark cannot be changed at run time: use spec.spark.conf of the Worker"
)

_NO_MEMBERS: Final = "the group has no members at the moment: try again"


class SparkMembers:
    """``parts.Members`` for what is installed in this process. The members' image has the same, unless they
    bring plug-ins of their own."""

    def wrong_name(self, name: str) -> str:
        """On Spark a connector has its resource's name."""
        try:
            DNS_SUBDOMAIN.check(name)
        except ValueError as error:
            return f"{name!r} is not a valid connector name on a Worker with runtime: spark: {error}"
        return ""

    def plugins(self, connectors_only: bool) -> list[dict[str, Any]]:
        """Kafka has a type for every plug-in, and kcctl's ``get plugins -t`` fails for any other type, so an
        unknown type is reported as a source."""
        types = {name: self.type_of(name) for name in known_classes()}
        return [
            {
                "class": name,
                "type": "source" if type_ == "unknown" else type_,
                "version": cooperator.__version__,
            }
            for name, type_ in types.items()
        ]

    def type_of(self, class_name: str) -> str:
        """The type by the names of the built-in classes: what reads Kafka is a sink, as with Kafka's own."""
        if class_name.startswith("kafka-to-"):
            return "sink"
        return "source" if class_name.endswith("-to-kafka") else "unknown"

    def topics(self, name: str) -> list[str]:
        """Spark connectors do not track topics."""
        return []

    def plugin_config(self, name: str) -> list[dict[str, Any]]:
        return [_definition(key, field) for key, field in option_names(_options(name)).items()]

    def validate(self, name: str, config: Mapping[str, str]) -> dict[str, Any]:
        """Kafka's ConfigInfos. Settings that hold references are not checked."""
        fields = option_names(_options(name))
        errors: dict[str, list[str]] = {}
        for problem in validate(name, config):
            errors.setdefault(problem.option, []).append(str(problem))
        secret = option_names(_options(name), "secret")
        return {
            "name": name,
            "error_count": sum(map(len, errors.values())),
            "groups": [],
            "configs": [
                {
                    "definition": _definition(key, fields[key]) if key in fields else None,
                    "value": {
                        "name": key,
                        "value": None if key in secret else config.get(key),
                        "recommended_values": [],
                        "errors": errors.get(key, []),
                        "visible": True,
                    },
                }
                for key in [*fields, *(k for k in errors if k not in fields)]
            ],
        }

    def loggers(self) -> dict[str, Any]:
        return {}

    def logger(self, name: str) -> dict[str, Any]:
        raise RequestRefused(404, _NO_LOGGERS)

    def set_level(self, name: str, level: str, scope: str) -> list[str] | None:
        raise RequestRefused(404, _NO_LOGGERS)


class SparkOffsets:
    """``parts.Offsets``, done by a member, which has the checkpoints and what the configuration refers to."""

    def __init__(self, urls: Callable[[], Sequence[str]], key: Callable[[], SessionKey | None]) -> None:
        self._urls = urls
        self._key = key

    def listed(self, name: str, config: Mapping[str, str]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._ask(name, "list")["offsets"]
        return found

    def alter(self, name: str, config: Mapping[str, str], entries: Entries) -> str:
        offsets = [{"partition": dict(partition), "offset": offset} for partition, offset in entries]
        return f"{self._ask(name, 'alter', offsets)['changed']} offsets of this connector have been altered."

    def reset(self, name: str, config: Mapping[str, str]) -> str:
        changed = self._ask(name, "reset")["changed"]
        return (
            f"The offsets of this connector have been reset, {changed} in all: it will start as a new "
            "connector."
        )

    def migrate(self, name: str, config: Mapping[str, str]) -> str:
        return f"{self._ask(name, 'migrate')['changed']} offsets of this connector have been migrated."

    def changed(self, name: str, config: Mapping[str, str], asked: OffsetChange) -> list[Change]:
        entries = encode(asked.entries)["offsets"]
        more: dict[str, Any] = {"to": asked.to, "dry_run": asked.dry_run}
        with _of_this_release(name):
            found = self._ask(name, asked.do.value, entries, "/offsets/change", **more)
        return [Change(each["partition"], each["before"], each["after"]) for each in found["changes"]]

    def state(self, name: str, config: Mapping[str, str], query: StateQuery) -> dict[str, Any]:
        """Asks one member after the other until one answers: each of them can, since nothing changes."""
        refused = RequestRefused(503, _NO_MEMBERS)
        for url in self._urls():
            try:
                with _of_this_release(name):
                    found: dict[str, Any] = self._ask(
                        name, "state", path="/state", urls=(url,), query=query.encode()
                    )
                return found
            except RequestRefused as error:
                if error.code < 500:
                    raise
                refused = error
        raise refused

    def _ask(
        self,
        name: str,
        do: str,
        offsets: Sequence[Any] = (),
        path: str = "/offsets",
        urls: Sequence[str] | None = None,
        **more: Any,
    ) -> Any:
        """Asks one of the members, of those at ``urls`` if they are given."""
        key = self._key()
        if key is None:
            raise RequestRefused(503, "the group has no session key yet: try again")
        refused = RequestRefused(503, _NO_MEMBERS)
        for url in self._urls() if urls is None else urls:
            try:
                nonce = ask([url], "GET", "/offsets/nonce")["nonce"]
            except RequestRefused as error:
                refused = error
                continue
            asked = {"connector": name, "do": do, "offsets": list(offsets), "nonce": nonce, **more}
            body = json.dumps(asked).encode()
            return ask([url], "POST", path, body, sign(key, body))
        raise refused


@contextmanager
def _of_this_release(name: str) -> Iterator[None]:
    """Names the remedy where a member of an earlier release does not know the path."""
    try:
        yield
    except RequestRefused as refused:
        if refused.code == 404 and name not in str(refused):
            raise RequestRefused(
                409,
                "the member is of a release that does not know this request: replace the "
                "Worker's members by those of this release (spec.version), or use the REST API",
            ) from None
        raise


def _options(name: str) -> type[Options]:
    try:
        return find(name).options
    except OptionError as error:
        raise RequestRefused(404, str(error)) from None


_TYPES: Final = ((bool, "BOOLEAN"), (int, "LONG"), (float, "DOUBLE"))


def _definition(name: str, field: Any) -> dict[str, Any]:
    """Kafka's ConfigKeyInfo of an option."""
    extra = field.json_schema_extra or {}
    kinds = [
        kind for of, kind in _TYPES if of in (field.annotation, *getattr(field.annotation, "__args__", ()))
    ]
    text = "PASSWORD" if extra.get("secret") else "LIST" if isinstance(field.default, tuple) else "STRING"
    required = field.is_required()
    default = None if required or field.default is None else _text(field.default)
    return {
        "name": name,
        "type": kinds[0] if kinds else text,
        "required": required,
        "default_value": default,
        "importance": "HIGH" if required else "MEDIUM",
        "documentation": field.description or "",
        "group": None,
        "width": "NONE",
        "display_name": name,
        "dependents": [],
        "order": -1,
    }


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
