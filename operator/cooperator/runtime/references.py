"""References in configurations: what is secret or local to a member is named there and read here.

``${env:NAME}``: an environment variable, if the member's allow-list has it. ``${file:PATH:KEY}``: the
value of KEY in a file of ``KEY=VALUE`` lines (``${file:PATH}``: the file's whole content, stripped).
``${worker.bootstrap.servers}``: where the member's own group lives. Resolved values are never logged.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_REFERENCE = re.compile(r"\$\{([^}]*)\}")


class UnresolvedReference(ValueError):
    """A reference that cannot be resolved here; the message names it and what to do."""


def contains_reference(value: str) -> bool:
    return _REFERENCE.search(value) is not None


@dataclass(frozen=True, slots=True)
class Resolved:
    """A configuration with its references replaced. The values are not part of the repr."""

    config: Mapping[str, str] = field(repr=False)
    secrets: frozenset[str] = field(repr=False)

    def scrub(self, text: str) -> str:
        """``text`` without any of the secrets that were resolved."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text


@dataclass(frozen=True, slots=True)
class Resolver:
    """Resolves references on one member. ``environment``: the process's; only ``allowed`` names are read."""

    environment: Mapping[str, str] = field(repr=False)
    allowed: frozenset[str] = frozenset()
    bootstrap_servers: str = ""

    def resolve(self, config: Mapping[str, str]) -> Resolved:
        secrets: set[str] = set()

        def replace(option: str, reference: str) -> str:
            value, secret = self._value(option, reference)
            if secret and value:
                secrets.add(value)
            return value

        def resolved(option: str, value: str) -> str:
            return _REFERENCE.sub(lambda match: replace(option, match.group(1)), value)

        values = {option: resolved(option, value) for option, value in config.items()}
        return Resolved(values, frozenset(secrets))

    def _value(self, option: str, reference: str) -> tuple[str, bool]:
        if reference == "worker.bootstrap.servers":
            return self.bootstrap_servers, False
        provider, _, rest = reference.partition(":")
        where = f"option {option!r}: ${{{reference}}}"
        if provider == "env" and rest:
            return self._variable(where, rest), True
        if provider == "file" and rest:
            return _from_file(where, rest), True
        raise UnresolvedReference(
            f"{where} is no reference; write ${{env:NAME}}, ${{file:PATH:KEY}} "
            "or ${worker.bootstrap.servers}"
        )

    def _variable(self, where: str, name: str) -> str:
        if name not in self.allowed:
            raise UnresolvedReference(f"{where}: {name} is not on this worker's allow-list; add it there")
        if name not in self.environment:
            raise UnresolvedReference(f"{where}: {name} is not set on this member; set it for the worker")
        return self.environment[name]


def _from_file(where: str, rest: str) -> str:
    path, _, key = rest.rpartition(":") if ":" in rest else (rest, "", "")
    try:
        text = Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UnresolvedReference(
            f"{where}: {path} cannot be read here ({reason}); mount it on the member"
        ) from None
    if not key:
        return text.strip()
    for line in text.splitlines():
        name, separator, value = line.partition("=")
        if separator and not line.lstrip().startswith(("#", "!")) and name.strip() == key:
            return value.strip()
    raise UnresolvedReference(f"{where}: {path} has no key {key!r}; write it as KEY=VALUE on a line")
