"""Metrics by OTLP, OpenTelemetry's protocol, beside the page for Prometheus and from the same families.

``settings`` reads OpenTelemetry's standard variables, ``conversion`` turns families into requests, and
``sender`` posts them from a thread of its own; the first two do no input or output. ``conversion`` and
``sender`` need the extra ``opentelemetry`` and are imported only where metrics are sent.
"""

from cooperator.telemetry.settings import ENDPOINT, OtlpInvalid, metrics_url
from cooperator.telemetry.start import Families, Sending, start_sending

__all__ = ["ENDPOINT", "Families", "OtlpInvalid", "Sending", "metrics_url", "start_sending"]
