"""``POST /connectors/{name}/tasks``: what a connector's instance sends to its leader (protocol notes, 9)."""

import json
from collections.abc import Mapping

from cooperator.model import SessionKey
from cooperator.wire import AlgorithmNotAllowed, Protocol, SignatureMissing, SignatureWrong, verify


class PostRefused(Exception):
    """The request is answered with ``code`` and changes nothing."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def read_task_configs(
    body: bytes, headers: Mapping[str, str], key: SessionKey | None, protocol: str
) -> tuple[Mapping[str, str], ...]:
    """The task configurations in a request's body. Raises PostRefused, also as ``check_signature``."""
    check_signature(body, headers, key, protocol)
    try:
        configs = json.loads(body)
    except ValueError as error:
        raise PostRefused(400, f"the body is not JSON: {type(error).__name__}") from None
    if not isinstance(configs, list) or not all(_is_string_map(config) for config in configs):
        raise PostRefused(400, "the body must be a JSON array of objects with string values")
    return tuple(configs)


def check_signature(body: bytes, headers: Mapping[str, str], key: SessionKey | None, protocol: str) -> None:
    """Return when a member has sent the request. Raises PostRefused.

    Requests are signed where the group's protocol is ``sessioned`` (KIP-507): 503 while there is no key
    yet, 400 for a missing signature or a wrong algorithm, 403 for a wrong one, such as that of an earlier
    key: the sender takes it for a rotation, reads on, and tries again.
    """
    if protocol != Protocol.SESSIONED.value:
        return
    if key is None:
        raise PostRefused(503, "there is no session key yet; try again")
    try:
        verify(key, headers, body)
    except (SignatureMissing, AlgorithmNotAllowed) as error:
        raise PostRefused(400, str(error)) from None
    except SignatureWrong as error:
        raise PostRefused(403, str(error)) from None


def _is_string_map(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())
