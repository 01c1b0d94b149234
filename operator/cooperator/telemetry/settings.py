"""Settings of an OTLP exporter, from the variables of OpenTelemetry's specification. Pure.

Sources: "OpenTelemetry Protocol Exporter", "Environment Variable Specification" and the semantic conventions
of resources. A variable for metrics (``OTEL_EXPORTER_OTLP_METRICS_…``) overrides the one for all signals.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
OPTION: Final = "--otlp-endpoint"
_ALL: Final = "OTEL_EXPORTER_OTLP_"
_METRICS: Final = "OTEL_EXPORTER_OTLP_METRICS_"
_PATH: Final = "/v1/metrics"
_LONGEST_MS: Final = 3_600_000
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OF_PODS: Final = {
    "POD_NAME": "k8s.pod.name",
    "POD_UID": "k8s.pod.uid",
    "POD_NAMESPACE": "k8s.namespace.name",
}


class OtlpInvalid(ValueError):
    """A setting that cannot be used: names it, and the remedy. Contains no value that may be secret."""


@dataclass(frozen=True, slots=True)
class OtlpSettings:
    """``url`` receives requests, each within ``timeout_ms``, every ``interval_ms``. ``headers`` may be
    secret. ``ca_file`` verifies the receiver; ``certificate_file`` and ``key_file`` identify this process."""

    url: str
    interval_ms: int = 60_000
    timeout_ms: int = 10_000
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    compressed: bool = False


def otlp_settings(environment: Mapping[str, str], endpoint: str = "") -> OtlpSettings | None:
    """Returns the settings; None if nothing is to be sent. ``endpoint`` overrides the variable's base URL.

    Raises OtlpInvalid.
    """
    exporters = environment.get("OTEL_METRICS_EXPORTER", "").strip()
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true" or (
        exporters and "otlp" not in (each.strip() for each in exporters.split(","))
    ):
        return None
    complete = environment.get(f"{_METRICS}ENDPOINT", "").strip()
    base = endpoint or environment.get(ENDPOINT, "").strip()
    if endpoint or not complete:
        if not base:
            return None
        url = metrics_url(base, OPTION if endpoint else ENDPOINT)
    else:
        url = _checked(complete, f"{_METRICS}ENDPOINT")

    def chosen(name: str) -> tuple[str, str]:
        """The variable that is used and its value, which is empty if there is none."""
        own = f"{_METRICS}{name}"
        return (
            (own, environment[own].strip())
            if environment.get(own, "").strip()
            else (
                f"{_ALL}{name}",
                environment.get(f"{_ALL}{name}", "").strip(),
            )
        )

    variable, protocol = chosen("PROTOCOL")
    if protocol not in ("", "http/protobuf"):
        raise OtlpInvalid(
            f"{variable} is {protocol!r}: use http/protobuf, and the receiver's port for it (usually 4318)"
        )
    variable, compression = chosen("COMPRESSION")
    if compression not in ("", "none", "gzip"):
        raise OtlpInvalid(f"{variable} is {compression!r}: use gzip or none")
    certificate, key = chosen("CLIENT_CERTIFICATE"), chosen("CLIENT_KEY")
    if bool(certificate[1]) != bool(key[1]):
        raise OtlpInvalid(f"only one of {certificate[0]} and {key[0]} is set: set both, or neither")
    return OtlpSettings(
        url=url,
        interval_ms=_milliseconds("OTEL_METRIC_EXPORT_INTERVAL", environment, 60_000),
        timeout_ms=_milliseconds(chosen("TIMEOUT")[0], environment, 10_000),
        headers=dict(_headers(*chosen("HEADERS"))),
        ca_file=chosen("CERTIFICATE")[1],
        certificate_file=certificate[1],
        key_file=key[1],
        compressed=compression == "gzip",
    )


def metrics_url(base: str, named: str = OPTION) -> str:
    """The URL that receives metrics below ``base``. Raises OtlpInvalid, which calls the setting ``named``."""
    return _checked(base, named).rstrip("/") + _PATH


def _checked(url: str, named: str) -> str:
    remedy = "use http://HOST:PORT or https://HOST:PORT"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise OtlpInvalid(f"{named} is no URL ({error}): {remedy}") from None
    if parts.username is not None or parts.password is not None:
        # The value contains the password.
        raise OtlpInvalid(f"{named} contains a user: remove it, and put the login into {_ALL}HEADERS")
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise OtlpInvalid(f"{named} is {url!r}: {remedy}")
    if parts.query or parts.fragment:
        raise OtlpInvalid(f"{named} has a query or a fragment: remove it")
    return url


def _milliseconds(name: str, environment: Mapping[str, str], default_ms: int) -> int:
    text = environment.get(name, "").strip()
    if not text:
        return default_ms
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:12]) <= _LONGEST_MS:
        raise OtlpInvalid(f"{name} is {text!r}: use milliseconds, 1 to {_LONGEST_MS}")
    return int(text)


def _headers(name: str, text: str) -> Iterator[tuple[str, str]]:
    """Parses ``key=value,…`` with percent-encoded values, as W3C Baggage has them."""
    for number, part in enumerate(filter(None, (part.strip() for part in text.split(","))), 1):
        key, equals, value = part.partition("=")
        decoded = unquote(value.strip())
        if not equals or not _HEADER.fullmatch(key.strip()):
            raise OtlpInvalid(f"entry {number} of {name} is not NAME=VALUE: use it, percent-encoded")
        if not decoded.isascii() or not decoded.isprintable():
            raise OtlpInvalid(
                f"{name} has characters in {key.strip()!r} that no header may have: use printable ASCII"
            )
        yield key.strip().lower(), decoded


def resource_attributes(
    service: str, instance: str, version: str, environment: Mapping[str, str], **more: str
) -> Mapping[str, str]:
    """Names the source of metrics as the semantic conventions do; those of the environment override ours.

    ``more``: further attributes, with ``_`` for each dot. Raises OtlpInvalid.
    """
    ours = {
        "service.name": service,
        "service.instance.id": instance,
        "service.version": version,
        **{attribute: environment.get(name, "") for name, attribute in _OF_PODS.items()},
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    theirs = dict(_attributes(environment.get("OTEL_RESOURCE_ATTRIBUTES", "")))
    if name := environment.get("OTEL_SERVICE_NAME", "").strip():
        theirs["service.name"] = name
    return {name: value for name, value in {**ours, **theirs}.items() if value}


def _attributes(text: str) -> Iterator[tuple[str, str]]:
    for number, part in enumerate(filter(None, (part.strip() for part in text.split(","))), 1):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise OtlpInvalid(
                f"entry {number} of OTEL_RESOURCE_ATTRIBUTES is not NAME=VALUE: use it, percent-encoded"
            )
        yield key.strip(), unquote(value.strip())
