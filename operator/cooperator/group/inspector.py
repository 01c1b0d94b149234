"""Inspects a group from outside, without membership, rebalance or side effects."""

import time
from collections.abc import Mapping
from typing import Any, Final

from cooperator.group.admin import GroupAdmin
from cooperator.group.config import GroupConfig
from cooperator.group.failures import explain
from cooperator.group.library import BOOTSTRAP_MS, errors, new_loop
from cooperator.group.listener import DescribedGroup
from cooperator.group.membership import GroupUnavailable
from cooperator.wire import Role

_NAME: Final = "cooperator-inspector"
_RETRY_S: Final = 0.2


def describe_group(
    bootstrap_servers: str, group_id: str, security: Mapping[str, Any] | None = None, timeout_s: float = 10
) -> DescribedGroup:
    """The group as its coordinator sees it (DescribeGroups).

    ``security``: as in ``GroupConfig``. Retried while another attempt can finish within ``timeout_s``. Raises
    GroupUnavailable; the message names the group, the broker and the problem.
    """
    config = GroupConfig(bootstrap_servers, group_id, _NAME, Role.WORKER, security=security or {})
    deadline = time.monotonic() + timeout_s
    loop = new_loop(config)
    admin = GroupAdmin(loop, config)
    try:
        while True:
            try:
                described: DescribedGroup = loop.run(admin.describe)
                return described
            except errors.KafkaError as error:
                if time.monotonic() + BOOTSTRAP_MS / 1000 > deadline:
                    raise GroupUnavailable(
                        f"Kafka at {bootstrap_servers}: {explain(error, config)}"
                    ) from error
            time.sleep(_RETRY_S)
    finally:
        admin.close()
        loop.close()
