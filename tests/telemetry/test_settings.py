"""Settings of the OTLP exporter, read from OpenTelemetry's variables."""

from collections.abc import Mapping

import pytest

from cooperator.telemetry.settings import OtlpInvalid, otlp_settings, resource_attributes

BASE = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
TOKEN = "do-not-show"


@pytest.mark.parametrize(
    ("environment", "endpoint", "url"),
    [
        (BASE, "", "http://collector:4318/v1/metrics"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "https://c:1/otlp/"}, "", "https://c:1/otlp/v1/metrics"),
        ({**BASE, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://m:1/own"}, "", "http://m:1/own"),
        ({}, "http://chart:4318", "http://chart:4318/v1/metrics"),
        (
            {**BASE, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://m:1/own"},
            "http://chart:4318",
            "http://chart:4318/v1/metrics",
        ),
    ],
)
def test_the_most_specific_endpoint_is_used(environment: Mapping[str, str], endpoint: str, url: str) -> None:
    assert otlp_settings(environment, endpoint).url == url


@pytest.mark.parametrize(
    "environment",
    [{}, {**BASE, "OTEL_SDK_DISABLED": "true"}, {**BASE, "OTEL_METRICS_EXPORTER": "none"}],
)
def test_nothing_is_sent_without_an_endpoint_or_where_it_is_switched_off(
    environment: Mapping[str, str],
) -> None:
    assert otlp_settings(environment) is None


def test_all_settings_have_their_standard_variables() -> None:
    settings = otlp_settings(
        {
            **BASE,
            "OTEL_METRIC_EXPORT_INTERVAL": "5000",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "2000",
            "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT": "1000",
            "OTEL_EXPORTER_OTLP_HEADERS": f"Authorization=Bearer%20{TOKEN}, x-tenant = lakes",
            "OTEL_EXPORTER_OTLP_CERTIFICATE": "ca.pem",
            "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": "own.pem",
            "OTEL_EXPORTER_OTLP_CLIENT_KEY": "own.key",
            "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
            "OTEL_METRICS_EXPORTER": "prometheus,otlp",
        }
    )
    assert (settings.interval_ms, settings.timeout_ms, settings.compressed) == (5_000, 1_000, True)
    assert settings.headers == {"authorization": f"Bearer {TOKEN}", "x-tenant": "lakes"}
    assert (settings.ca_file, settings.certificate_file, settings.key_file) == (
        "ca.pem",
        "own.pem",
        "own.key",
    )
    assert TOKEN not in repr(settings)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4317"}, "ENDPOINT is 'collector:4317': use http://HOST"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:port"}, "ENDPOINT is no URL"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://me:{TOKEN}@c:1"}, "ENDPOINT contains a user: remove it"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://c:1?key={TOKEN}"}, "has a query or a fragment: remove it"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "PROTOCOL is 'grpc': use http/protobuf"),
        ({"OTEL_EXPORTER_OTLP_COMPRESSION": "zstd"}, "COMPRESSION is 'zstd': use gzip or none"),
        ({"OTEL_METRIC_EXPORT_INTERVAL": "30s"}, "INTERVAL is '30s': use milliseconds"),
        ({"OTEL_EXPORTER_OTLP_TIMEOUT": "0"}, "TIMEOUT is '0': use milliseconds"),
        ({"OTEL_EXPORTER_OTLP_HEADERS": f"Bearer {TOKEN}"}, "entry 1 of OTEL_EXPORTER_OTLP_HEADERS is not"),
        ({"OTEL_EXPORTER_OTLP_HEADERS": f"a={TOKEN}%0D%0Ab:1"}, "characters in 'a' that no header may have"),
        ({"OTEL_EXPORTER_OTLP_CLIENT_KEY": "own.key"}, "set both, or neither"),
    ],
)
def test_a_wrong_setting_is_named_with_its_remedy_and_without_secrets(
    wrong: Mapping[str, str], said: str
) -> None:
    with pytest.raises(OtlpInvalid) as refused:
        otlp_settings({**BASE, **wrong})
    assert said in str(refused.value)
    assert TOKEN not in str(refused.value)


def test_a_resource_has_the_names_of_the_semantic_conventions() -> None:
    pod = {"POD_NAME": "lake-0", "POD_UID": "u", "POD_NAMESPACE": "shop", "PASSWORD": TOKEN}
    ours = resource_attributes("cooperator-worker", "i-1", "1.0", pod, cooperator_worker="lake")
    assert ours == {
        "service.name": "cooperator-worker",
        "service.instance.id": "i-1",
        "service.version": "1.0",
        "k8s.pod.name": "lake-0",
        "k8s.pod.uid": "u",
        "k8s.namespace.name": "shop",
        "cooperator.worker": "lake",
    }
    theirs = {
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=pre%2Dprod,service.name=mine",
        "OTEL_SERVICE_NAME": "lakes",
    }
    attributes = resource_attributes("cooperator-worker", "i-1", "1.0", {**pod, **theirs})
    assert attributes["service.name"] == "lakes"
    assert attributes["deployment.environment.name"] == "pre-prod"
    with pytest.raises(OtlpInvalid, match="entry 2 of OTEL_RESOURCE_ATTRIBUTES"):
        resource_attributes("s", "i", "1", {"OTEL_RESOURCE_ATTRIBUTES": "a=1,b"})
