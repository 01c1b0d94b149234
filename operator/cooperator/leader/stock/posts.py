"""``POST /connectors/{name}/tasks``: a connector instance's request to its leader (docs/protocol.md, 9)."""

import json
from collections.abc import Awaitable, Mapping
from typing import Final

from cooperator.leader.events import PostOutcome
from cooperator.model import SessionKey
from cooperator.wire import AlgorithmNotAllowed, SignatureMissing, SignatureWrong, signs_requests, verify
from cooperator.wire.signature import SIGNATURE_HEADER

NOT_NOW = "nothing can be written now: a round is under way, or the config log is out of reach; try again"
"""The message of ``PostOutcome.AGAIN``."""


MOST_TASKS: Final = 40_000
MOST_TASK_BYTES: Final = 900_000
"""A record of Kafka has at most 1 MB by default."""


class PostRefused(Exception):
    """The request is answered with ``code`` and changes nothing."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


async def outcome_of(answer: Awaitable[int]) -> int:
    """The code that a leader answers; AGAIN if it does not answer in time."""
    try:
        return await answer
    except TimeoutError:
        # It is unknown whether the record was written; a repeated request finds out.
        return PostOutcome.AGAIN


def read_task_configs(
    body: bytes, headers: Mapping[str, str], key: SessionKey | None, protocol: str
) -> tuple[Mapping[str, str], ...]:
    """The task configurations in a request's body. Raises PostRefused, as ``check_signature`` does."""
    check_signature(body, headers, key, protocol)
    try:
        configs = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise PostRefused(400, f"the body is not JSON: {type(error).__name__}") from None
    if not isinstance(configs, list) or not all(_is_string_map(config) for config in configs):
        raise PostRefused(400, "the body must be a JSON array of objects with string values")
    if len(configs) > MOST_TASKS:
        raise PostRefused(
            400, f"the body has {len(configs):,} task configurations; at most {MOST_TASKS:,} are taken"
        )
    for number, config in enumerate(configs):
        _check_record(number, config)
    return tuple(configs)


def check_headers(headers: Mapping[str, str], protocol: str) -> None:
    """Return if a request may have been signed, before its body is read. Raises PostRefused 400."""
    if signs_requests(protocol) and SIGNATURE_HEADER not in headers:
        raise PostRefused(400, f"the request needs the header {SIGNATURE_HEADER}")


def check_signature(body: bytes, headers: Mapping[str, str], key: SessionKey | None, protocol: str) -> None:
    """Return if a member has sent the request. Raises PostRefused.

    Requests are signed where the group's protocol is ``sessioned`` (KIP-507) or ``reconciled``. The codes are
    503 while there is no key yet, 400 for a missing signature or a wrong algorithm, 403 for a wrong
    signature, such as one by an earlier key: the sender takes that for a rotation, reads on, and tries again.
    """
    if not signs_requests(protocol):
        return
    if key is None:
        raise PostRefused(503, "there is no session key yet; try again")
    try:
        verify(key, headers, body)
    except (SignatureMissing, AlgorithmNotAllowed) as error:
        raise PostRefused(400, str(error)) from None
    except SignatureWrong as error:
        raise PostRefused(403, str(error)) from None


def _check_record(number: int, config: Mapping[str, str]) -> None:
    """Raises PostRefused where no record of the config log can hold the configuration: the leader would be
    unable to write any record.
    """
    try:
        size = len(json.dumps(config, ensure_ascii=False).encode())
    except UnicodeEncodeError:
        raise PostRefused(400, f"the configuration of task {number} contains half a character") from None
    if size > MOST_TASK_BYTES:
        said = f"the configuration of task {number} has {size:,} bytes; at most {MOST_TASK_BYTES:,} are taken"
        raise PostRefused(400, f"{said}: use smaller settings, or more tasks for its units")


def _is_string_map(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())
