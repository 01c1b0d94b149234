"""Starts to send a process's metrics if its settings say so; otherwise does nothing."""

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from prometheus_client.core import Metric

from cooperator.model.extras import Extra, NotInstalled, require
from cooperator.telemetry.settings import OtlpInvalid, otlp_settings

log = logging.getLogger(__name__)

Families = Callable[[], Iterable[Metric]]
"""Returns the families of metrics, as the page for Prometheus has them; called by any thread."""
Attributes = Callable[[], Mapping[str, str]]
"""Returns the attributes of the resource. May raise OtlpInvalid."""


class Sending(Protocol):
    """A process's metrics on their way."""

    def stop(self, timeout_s: float) -> None:
        """Send the last values and the end of all series; give up after ``timeout_s``."""


class _Nothing:
    def stop(self, timeout_s: float) -> None:
        """Nothing is sent."""


def start_sending(
    families: Families,
    attributes: Attributes,
    endpoint: str = "",
    environment: Mapping[str, str] | None = None,
) -> Sending:
    """Send ``families`` by OTLP while the process runs, if ``endpoint`` or the environment names a receiver.

    Wrong settings and a missing package are logged and never end the process, which works without it.
    """
    try:
        found = os.environ if environment is None else environment
        settings = otlp_settings(found, endpoint)
        if settings is None:
            return _Nothing()
        resource = attributes()
    except OtlpInvalid as error:
        log.warning("metrics are not sent by OTLP: %s", error)
        return _Nothing()
    try:
        require(Extra.OPENTELEMETRY, "OTLP")
    except NotInstalled as error:
        log.warning("metrics are not sent: %s", error)
        return _Nothing()
    from cooperator.telemetry.sender import OtlpSender

    sender = OtlpSender(settings, resource, families)
    sender.start()
    return sender
