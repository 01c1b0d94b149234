"""Properties of Kafka's Java client that a Connector may pass through (class ``spark``). Pure.

Some properties load classes, run programs or read files and credentials of the member. Those of encryption
and authentication are an allow-list; of the others, those that name classes are refused. Files of a login
module are checked like every path.
"""

import re
from collections.abc import Callable
from typing import Final

from cooperator.connectors.formats import is_up_to

_SECURITY: Final = ("config.", "sasl.", "security.", "ssl.")
_ALLOWED: Final = frozenset(
    {
        *("sasl.jaas.config", "sasl.kerberos.service.name", "sasl.mechanism", "security.protocol"),
        *("ssl.cipher.suites", "ssl.enabled.protocols", "ssl.endpoint.identification.algorithm"),
        *("ssl.key.password", "ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.keystore.location"),
        *("ssl.keystore.password", "ssl.keystore.type", "ssl.protocol", "ssl.truststore.certificates"),
        *("ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type"),
    }
)
_CLASSES: Final = re.compile(
    r"(.*\.)?(class|classes|reporters|providers|serializer|deserializer)|partition\.assignment\.strategy"
)
_BUFFERS: Final = re.compile(r"(.*\.)?(bytes|size)")
_LARGEST_BUFFER: Final = 128 * 1024 * 1024
"""Upper limit of what a property of a client allocates at once, such as ``batch.size``."""
_SECRETS: Final = re.compile(r".*(jaas\.config|password|keystore\.key)")

_KERBEROS: Final = "com.sun.security.auth.module.Krb5LoginModule"
_MODULES: Final = (
    "org.apache.kafka.common.security.plain.PlainLoginModule",
    "org.apache.kafka.common.security.scram.ScramLoginModule",
    _KERBEROS,
)
_WORD: Final = r"[A-Za-z_][A-Za-z0-9_.$-]*"
_VALUE: Final = r"\"(?:[^\"\\\r\n]|\\[^\r\n])*\"|'(?:[^'\\\r\n]|\\[^\r\n])*'|[A-Za-z0-9_.$-]+"
_SETTING: Final = re.compile(rf"\s+({_WORD})\s*=\s*({_VALUE})")
_LOGIN: Final = re.compile(
    rf"\s*({_WORD})\s+(?:required|requisite|sufficient|optional)((?:\s+{_WORD}\s*=\s*(?:{_VALUE}))*)\s*;\s*",
    re.IGNORECASE | re.ASCII,
)
"""One login module with its settings, without comments: everything that Java's parser reads differently is
refused."""


def is_secret(name: str) -> bool:
    """Whether no error may show the value of this property, given in lower case."""
    return _SECRETS.fullmatch(name) is not None


def refused(name: str, value: str, is_allowed: Callable[[str], bool]) -> str:
    """Returns why a Connector may not set the property, given in lower case; empty if it may.

    ``is_allowed`` says whether the Connector may open a path. Paths of certificates are checked elsewhere.
    """
    if _CLASSES.fullmatch(name) or (name.startswith(_SECURITY) and name not in _ALLOWED):
        return "may load classes, run programs or read files of the member"
    if _BUFFERS.fullmatch(name) and not is_up_to(value, _LARGEST_BUFFER):
        return f"allocates as much: it is not a number up to {_LARGEST_BUFFER}"
    return _refused_login(value, is_allowed) if name == "sasl.jaas.config" else ""


def _refused_login(value: str, is_allowed: Callable[[str], bool]) -> str:
    found = _LOGIN.fullmatch(value)
    if found is None:
        return "is not one login module with its settings"
    if found[1] not in _MODULES:
        return (
            f"names a login module other than {', '.join(module.rpartition('.')[2] for module in _MODULES)}"
        )
    if found[1] != _KERBEROS:
        return ""
    settings = {key.lower(): _unquoted(text) for key, text in _SETTING.findall(found[2])}
    for use, name in (("usekeytab", "keytab"), ("useticketcache", "ticketcache")):
        path = settings.get(name, "")
        path = path.removeprefix("FILE:").removeprefix("file:")
        if path and not (path.startswith("/") and is_allowed(path)):
            return f"opens a file ({name}) that the Worker does not allow"
        if settings.get(use, "false").lower() == "true" and not path:
            return f"would use the member's own credentials: it has {use} without {name}"
    return ""


def _unquoted(text: str) -> str:
    # A path with escapes is left as it is, and is none that is allowed.
    return text[1:-1] if text[:1] in ("'", '"') else text
