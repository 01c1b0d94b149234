"""References in configurations: they name secrets and member-local values, which are read here.

``${env:NAME}`` is an environment variable, if the member's allow-list has it. ``${file:PATH:KEY}`` is the
value of KEY in a file of ``KEY=VALUE`` lines (``${file:PATH}``: the file's whole content, stripped), if the
file is below a path that the member allows.
``${worker.bootstrap.servers}`` is the Kafka cluster of the member's own group;
``${worker.security.protocol}`` and so on (``WORKER``) are its security settings there. Resolved values are
never logged.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cooperator.model.text import end_of_braces, hinted
from cooperator.oauthbearer import Tokens
from cooperator.oauthbearer.login import CA, CLIENT_ID, CLIENT_SECRET, SCOPE, URL

_REFERENCE = re.compile(r"\$\{([^}]*)\}")

WORKER: Final = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.endpoint.identification.algorithm": "ssl_check_hostname",
    **dict.fromkeys((URL, CLIENT_ID, CLIENT_SECRET, SCOPE, CA), "sasl_oauth_token_provider"),
}
"""The member's security settings that ``${worker.…}`` may name, and the setting behind each."""
_SECRETS_OF_WORKER: Final = ("sasl.password", CLIENT_SECRET)


_CREDENTIALS: Final = re.compile(r"\$\{worker\.((?:sasl|ssl|https)\.[^}]*)\}")


class UnresolvedReference(ValueError):
    """A reference cannot be resolved here; the message names it and the remedy.

    ``lasting``: no event resolves it without a change of the Connector or its Worker.
    """

    def __init__(self, message: str, *, lasting: bool = False) -> None:
        super().__init__(message)
        self.lasting = lasting


def contains_reference(value: str) -> bool:
    return _REFERENCE.search(value, 0, end_of_braces(value)) is not None


@dataclass(frozen=True, slots=True)
class Resolved:
    """A configuration with its references replaced. The values are not part of the repr."""

    config: Mapping[str, str] = field(repr=False)
    secrets: frozenset[str] = field(repr=False)

    def scrub(self, text: str) -> str:
        """Returns ``text`` without any of the resolved secrets, plain or escaped as in quotes."""
        quoted = {secret.replace("\\", "\\\\").replace('"', '\\"') for secret in self.secrets}
        for secret in sorted(self.secrets | quoted, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text


@dataclass(frozen=True, slots=True)
class Resolver:
    """Resolves references on one member.

    ``environment`` is the process's; only ``allowed`` names are read, and only files below
    ``allowed_files``, wherever links lead. ``allowed_paths`` and ``own_topics``: see ``bounds``.
    ``security`` holds the member's security settings for its group's
    Kafka, by kafka-python's names.
    """

    environment: Mapping[str, str] = field(repr=False)
    allowed: frozenset[str] = frozenset()
    allowed_files: tuple[str, ...] = ()
    bootstrap_servers: str = ""
    security: Mapping[str, Any] = field(default_factory=dict, repr=False)
    allowed_paths: tuple[str, ...] = ()
    own_topics: frozenset[str] = frozenset()

    def resolve(self, config: Mapping[str, str]) -> Resolved:
        secrets: set[str] = set()

        def replace(option: str, reference: str) -> str:
            value, secret = self._value(option, reference)
            if secret and value:
                secrets.add(value)
            return value

        def resolved(option: str, value: str) -> str:
            end = end_of_braces(value)
            return _REFERENCE.sub(lambda match: replace(option, match.group(1)), value[:end]) + value[end:]

        values = {option: resolved(option, value) for option, value in config.items()}
        return Resolved(values, frozenset(secrets))

    def _value(self, option: str, reference: str) -> tuple[str, bool]:
        if reference == "worker.bootstrap.servers":
            return self.bootstrap_servers, False
        of_worker = reference.removeprefix("worker.")
        if of_worker != reference and of_worker in WORKER:
            return self._security(of_worker), of_worker in _SECRETS_OF_WORKER
        provider, _, rest = reference.partition(":")
        where = f"option {option!r}: ${{{reference}}}"
        if provider == "env" and rest:
            return self._variable(where, rest), True
        if provider == "file" and rest:
            return _from_file(where, rest, self.allowed_files), True
        names = ("bootstrap.servers", *WORKER)
        remedy = "write ${env:NAME}, ${file:PATH:KEY} or ${worker.NAME}, where NAME is one of " + ", ".join(
            names
        )
        known = (*(f"worker.{name}" for name in names), "env:", "file:")
        problem = f"{where} is not a reference; {hinted(reference, known, remedy)}"
        raise UnresolvedReference(problem, lasting=True)

    def _security(self, name: str) -> str:
        """Returns the setting; empty if it is not set."""
        value = self.security.get(WORKER[name], "")
        if isinstance(value, bool):
            return "https" if value else "none"
        if isinstance(value, Tokens):
            return value.login.settings[name]
        return str(value)

    def _variable(self, where: str, name: str) -> str:
        if name not in self.allowed:
            raise UnresolvedReference(
                f"{where}: {name} is not on this Worker's allow-list; add it to spec.envAllowed", lasting=True
            )
        if name not in self.environment:
            raise UnresolvedReference(
                f"{where}: {name} is not set on this member; set it in the Worker's template"
            )
        return self.environment[name]


def own_topics(group_id: str) -> frozenset[str]:
    """Returns the internal topics of a Worker's group; Connectors must not read or write them."""
    names = ("configs", "status", "leader", "batches", "files", "offsets", "positions")
    return frozenset(f"{group_id}-{name}" for name in names)


def _is_below(real: str, prefixes: Iterable[str]) -> bool:
    """Whether a file without links in its path is at or below one of the directories, wherever links lead."""
    found = (os.path.realpath(prefix) for prefix in prefixes)
    return any(real == prefix or real.startswith(f"{prefix.rstrip('/')}/") for prefix in found)


def forbidden_files(config: Mapping[str, str], allowed: Sequence[str]) -> list[tuple[str, str]]:
    """Returns options that name a file outside ``allowed``, as written, and what is wrong with each.

    It opens nothing and follows no links, which are the member's.
    """
    return [
        (option, _not_allowed(f"option {option!r}: ${{{match[1]}}}", path))
        for option, value in config.items()
        for match in _REFERENCE.finditer(value, 0, end_of_braces(value))
        if match[1].startswith("file:")
        and (path := _path_and_key(match[1].removeprefix("file:"))[0])
        and not any(f"{os.path.normpath(path)}/".startswith(f"{prefix}/") for prefix in allowed)
    ]


def misplaced_credentials(config: Mapping[str, str]) -> list[tuple[str, str]]:
    """Returns (option, setting) for each use of the Worker's own access to Kafka outside the option for it.

    ``${worker.sasl.password}`` may be the whole value of the option ``sasl.password`` only: any other option
    could show it to a server, a topic or a file that the Connector names.
    """
    return [
        (option, match[1])
        for option, value in config.items()
        for match in _CREDENTIALS.finditer(value, 0, end_of_braces(value))
        if option != match[1] or value != match[0]
    ]


def is_credential(value: str) -> bool:
    """Whether the value is a reference to the Worker's own access to Kafka."""
    return _CREDENTIALS.search(value, 0, end_of_braces(value)) is not None


def _not_allowed(where: str, path: str) -> str:
    remedy = "add its directory to spec.allowedFileReferences"
    return f"{where}: {path} is not below a path that this Worker allows; {remedy}"


def _path_and_key(rest: str) -> tuple[str, str]:
    path, _, key = rest.rpartition(":") if ":" in rest else (rest, "", "")
    return path, key


def _from_file(where: str, rest: str, allowed: Sequence[str]) -> str:
    path, key = _path_and_key(rest)
    try:
        # The path that is checked is opened: links that are followed twice may have changed in between.
        real = os.path.realpath(path)
        if not path.startswith("/") or not _is_below(real, allowed):
            raise UnresolvedReference(_not_allowed(where, path), lasting=True)
        text = Path(real).read_text()
    except UnresolvedReference:
        raise
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UnresolvedReference(
            f"{where}: {path} cannot be read on this member ({reason}); mount it there"
        ) from None
    if not key:
        return text.strip()
    for line in text.splitlines():
        name, separator, value = line.partition("=")
        if separator and not line.lstrip().startswith(("#", "!")) and name.strip() == key:
            return value.strip()
    raise UnresolvedReference(f"{where}: {path} has no key {key!r}; write it as KEY=VALUE on a line")
