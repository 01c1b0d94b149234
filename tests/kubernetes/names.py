"""A cluster's DNS, as far as tests need it: names of services, ``NAME.NAMESPACE.svc.cluster.local``."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset

from tests.kubernetes.api import Api, ApiError

DOMAIN: Final = "cluster.local"
_TTL_S: Final = 1
_NO_ADDRESS: Final = ("", "None")
"""An external name, and a headless service: these have no address of their own."""


@contextmanager
def name_server(api: Api, address: str) -> Iterator[None]:
    """Serves at port 53 (UDP) of ``address`` while the block runs; kubelets name it to pods."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            wire, socket = self.request
            asked = dns.message.from_wire(wire)
            socket.sendto(
                answer(asked, lambda name: service_address(api, *name)).to_wire(), self.client_address
            )

    with socketserver.ThreadingUDPServer((address, 53), Handler) as server:
        threading.Thread(target=server.serve_forever, name="names", daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()


def answer(
    asked: dns.message.Message, look_up: Callable[[tuple[str, str]], str | None]
) -> dns.message.Message:
    """Answers one question. ``look_up`` takes namespace and name of a service, and returns its address (see
    ``service_address``)."""
    answered = dns.message.make_response(asked, recursion_available=True)
    answered.flags |= dns.flags.AA
    [question] = asked.question
    labels = question.name.to_text(omit_final_dot=True).split(".")
    found = None
    if len(labels) == 5 and ".".join(labels[2:]) == f"svc.{DOMAIN}":
        found = look_up((labels[1], labels[0]))
    if found is None:
        answered.set_rcode(dns.rcode.NXDOMAIN)
    elif question.rdtype == dns.rdatatype.A and found not in _NO_ADDRESS:
        answered.answer.append(dns.rrset.from_text(question.name, _TTL_S, "IN", "A", found))
    return answered


def service_address(api: Api, namespace: str, name: str) -> str | None:
    """The service's address: empty or ``None`` (the word) without one; None if there is no such service."""
    try:
        found: str = api.get(f"/api/v1/namespaces/{namespace}/services/{name}")["spec"].get("clusterIP", "")
    except ApiError as error:
        if error.status == 404:
            return None
        raise
    return found
