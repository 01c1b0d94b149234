"""``POST /offsets``, ``/offsets/change`` and ``/state`` of a member: a connector's offsets and its state.

Members can reach the checkpoints, others may not. The caller is the server of Kafka Connect's REST API for
the group and signs the request with the group's session key (KIP-507), so that no other client can change
offsets. Each request carries a nonce issued by this member, so that it cannot be replayed. The caller ensures
that nothing of the connector runs; this page checks again that the connector's target is STOPPED.
"""

import asyncio
import hmac
import json
import logging
import os
import secrets
import time
from collections.abc import Callable
from typing import Any, Final

from aiohttp import web

from cooperator.agent.options import WorkerOptions
from cooperator.connectors.offset_operations import Subject, alter, listed, migrate, reset
from cooperator.connectors.offsets import OffsetsError, Where, decode, encode
from cooperator.connectors.options import OptionError
from cooperator.connectors.places import NoPlace, place_of
from cooperator.connectors.references import UnresolvedReference
from cooperator.connectors.state_query import StateError, StateQuery
from cooperator.connectors.state_query import decode as decode_query
from cooperator.leader.endpoint import body_of, error_answer, json_answer
from cooperator.model import ClusterConfig, TargetState, without_reserved
from cooperator.wire import AlgorithmNotAllowed, SignatureMissing, SignatureWrong, verify
from cooperator.wire.signature import SIGNATURE_HEADER

log = logging.getLogger(__name__)

_NONCE_S: Final = 60
"""Long enough for one request."""


CarryOut = Callable[[dict[str, Any], Subject], dict[str, Any]]
ReadState = Callable[[Subject, StateQuery], dict[str, Any]]

_READING: Final = ("list", "state")
_OF_USERS: Final = (NoPlace, OffsetsError, OptionError, StateError, UnresolvedReference, ConnectionError)
"""Errors whose text is for users."""


class OffsetsPage:
    """``config``: returns the newest state of the config log. ``state`` reads the state of queries."""

    def __init__(self, options: WorkerOptions, config: Callable[[], ClusterConfig], state: ReadState) -> None:
        self._options = options
        self._config = config
        self._read_state = state
        self._secret = secrets.token_bytes(32)
        self._used: dict[str, float] = {}
        """Nonces of signed requests, and when they expire; only the endpoint's thread touches them. Unused
        nonces are not stored, so that clients cannot exhaust the memory by requesting them."""

    async def nonce(self, request: web.Request) -> web.StreamResponse:
        """Answer ``{"nonce"}``, for one request."""
        terms = f"{time.monotonic() + _NONCE_S:.3f}.{secrets.token_urlsafe(16)}"
        return json_answer(200, {"nonce": f"{terms}.{self._proof(terms)}"})

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a request ``{"connector", "do", "offsets", "nonce"}``.

        ``do`` is ``list``, ``alter``, ``reset`` or ``migrate``. The response is ``{"offsets": […]}`` for
        ``list`` and ``{"changed": n}`` for the others.
        """
        return await self._answered(request, self._carry_out)

    async def change(self, request: web.Request) -> web.StreamResponse:
        """Like ``answer``, for a change only, with ``to`` (earliest, latest or null) and ``dry_run``.

        The response is ``{"changes": [{"partition", "before", "after"}]}``. The path is another one, since a
        member of an earlier release would ignore ``dry_run`` and make the change.
        """
        return await self._answered(request, _changed)

    async def state(self, request: web.Request) -> web.StreamResponse:
        """Answer a request ``{"connector", "do": "state", "query", "nonce"}`` with ``{"rows", "cut"}``.

        See ``state_reading``. It is answered whatever state the connector's target is.
        """

        def read(asked: dict[str, Any], subject: Subject) -> dict[str, Any]:
            return self._read_state(subject, decode_query(asked["query"]))

        return await self._answered(request, read)

    async def _answered(self, request: web.Request, carry_out: CarryOut) -> web.StreamResponse:
        if SIGNATURE_HEADER not in request.headers:
            return error_answer(400, f"the request needs the header {SIGNATURE_HEADER}")
        body, config = await body_of(request), self._config()
        if config.session_key is None:
            return error_answer(503, "there is no session key yet; try again")
        try:
            verify(config.session_key, dict(request.headers), body)
        except (SignatureMissing, AlgorithmNotAllowed) as error:
            return error_answer(400, str(error))
        except SignatureWrong as error:
            return error_answer(403, str(error))
        asked = json.loads(body)
        if not self._accept(str(asked.get("nonce"))):
            return error_answer(
                403, "the nonce was not issued by this member or has been used: request a new one"
            )
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, self._answer, asked, config, carry_out)

    def _proof(self, terms: str) -> str:
        return hmac.new(self._secret, terms.encode(), "sha256").hexdigest()

    def _accept(self, nonce: str) -> bool:
        """Whether the nonce is this member's, has not expired, and is used for the first time."""
        now = time.monotonic()
        self._used = {used: expires for used, expires in self._used.items() if expires > now}
        terms, _, proof = nonce.rpartition(".")
        if nonce in self._used or not hmac.compare_digest(self._proof(terms).encode(), proof.encode()):
            return False
        expires = float(terms.rpartition(".")[0])
        self._used[nonce] = expires
        return expires > now

    def _answer(self, asked: dict[str, Any], config: ClusterConfig, carry_out: CarryOut) -> web.Response:
        name = str(asked["connector"])
        connector = config.connectors.get(name)
        if connector is None:
            return error_answer(404, f"connector {name} is not configured yet")
        if asked["do"] not in _READING and connector.target is not TargetState.STOPPED:
            return error_answer(
                409, f"connector {name} is {connector.target.value}, not STOPPED: stop it first"
            )
        try:
            return json_answer(200, carry_out(asked, self._subject(name, connector.config)))
        except _OF_USERS as error:
            return error_answer(400, str(error))
        except Exception as error:
            what = "state" if asked["do"] == "state" else "offsets"
            log.exception("the %s of %s", what, name)
            return error_answer(500, f"the {what} of {name}: {type(error).__name__}; see this member's log")

    def _carry_out(self, asked: dict[str, Any], subject: Subject) -> dict[str, Any]:
        if asked["do"] == "list":
            return encode(listed(subject))
        if asked["do"] == "reset":
            return {"changed": len(reset(subject, dry_run=False))}
        if asked["do"] == "migrate":
            return {"changed": len(migrate(subject, dry_run=False))}
        wanted = decode(json.dumps({"offsets": asked["offsets"]}), "the request")
        return {"changed": len(alter(subject, wanted, dry_run=False))}

    def _subject(self, name: str, config: Any) -> Subject:
        settings = self._options.runtime_settings()
        resolver = settings.resolver()
        conf = settings.resolved_conf()
        return Subject(
            name=name,
            class_name=config["connector.class"],
            config=dict(without_reserved(config)),
            group_id=settings.group_id,
            checkpoints=place_of(settings.checkpoints, conf, os.environ),
            resolver=resolver,
            conf=conf,
        )


def _changed(asked: dict[str, Any], subject: Subject) -> dict[str, Any]:
    dry_run = bool(asked["dry_run"])
    match asked["do"]:
        case "alter":
            wanted = decode(json.dumps({"offsets": asked["offsets"]}), "the request")
            found = alter(subject, wanted, dry_run=dry_run)
        case "reset":
            where = None if asked["to"] is None else Where(asked["to"])
            found = reset(subject, where, dry_run=dry_run)
        case "migrate":
            found = migrate(subject, dry_run=dry_run)
        case other:
            raise OffsetsError(f"do is {other!r}: use alter, reset or migrate")
    return {"changes": [{"partition": c.partition, "before": c.before, "after": c.after} for c in found]}
