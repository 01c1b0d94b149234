"""Settings of a stock connector's own Kafka clients (``producer.override.…``): what they must say. Pure.

Such a client has the worker's settings, its credentials included, except for those that the connector
overrides. So a connector that names other brokers, or another way to log in, must say the whole way anew. It
must not read the operator's files either, which hold the same credentials.
"""

import re
from collections.abc import Mapping
from typing import Final

from cooperator.crd.owned import PROVIDER
from cooperator.model.text import end_of_braces

_CLIENTS: Final = ("producer.override.", "consumer.override.", "admin.override.")
_SERVERS: Final = "bootstrap.servers"
_PROTOCOL: Final = "security.protocol"
_MECHANISM: Final = "sasl.mechanism"
_LOGIN: Final = "sasl.jaas.config"
_CODE: Final = re.compile(r"sasl\..*(\.class|\.cmd|\.url|\.file)|ssl\.engine\.factory\.class")
"""Properties that lead the worker's login elsewhere."""
_OURS: Final = re.compile(rf"\$\{{{PROVIDER}-[^}}]*\}}")


def override_problem(config: Mapping[str, str]) -> str:
    """Returns what is wrong with a connector's overrides and the remedy; empty if nothing is."""
    for name, value in config.items():
        if _OURS.search(value, 0, end_of_braces(value)):
            return (
                f"has a reference to the operator's own provider {PROVIDER}-… in {name!r}: remove it, and "
                "use a provider of connect.config"
            )
    for client in _CLIENTS:
        own = {name.removeprefix(client): value for name, value in config.items() if name.startswith(client)}
        if missing := _missing(own):
            changed = next(name for name in own if _leads_elsewhere(name))
            return (
                f"has {client}{changed} without {client}{missing}, so that the worker's credentials would be "
                f"shown to others: set {client}{missing}, too, or remove {client}{changed}"
            )
    return ""


def _leads_elsewhere(name: str) -> bool:
    return name in (_SERVERS, _PROTOCOL, _MECHANISM) or _CODE.fullmatch(name) is not None


def _missing(own: Mapping[str, str]) -> str:
    """Returns the setting without which the client would use the worker's credentials elsewhere."""
    if not any(map(_leads_elsewhere, own)):
        return ""
    protocol = own.get(_PROTOCOL, "").strip().upper()
    if protocol in ("PLAINTEXT", "SSL"):
        return ""
    needed = (_PROTOCOL, _MECHANISM, _LOGIN) if _SERVERS in own else (_LOGIN,)
    return next((name for name in needed if not own.get(name, "").strip()), "")
