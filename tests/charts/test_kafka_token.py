"""The operator's own ServiceAccount token for Kafka."""

from typing import Any

import pytest

from tests.charts.rendered import Release
from tests.kubernetes.helm import HelmFailed


def test_leaders_have_a_token_for_kafka_only_where_an_audience_is_named(release: Release) -> None:
    named = {"kafka": {"serviceAccountToken": {"audience": "kafka"}}}
    plain, given = (release.operator_pod(values)["spec"] for values in ({}, named))
    assert "kafka-token" not in str(plain)
    [container] = given["containers"]
    environment = {each["name"]: each.get("value") for each in container["env"]}
    assert environment["COOPERATOR_KAFKA_TOKEN_AUDIENCE"] == "kafka"
    [mount] = [each for each in container["volumeMounts"] if each["name"] == "kafka-token"]
    assert environment["COOPERATOR_KAFKA_TOKEN_FILE"] == f"{mount['mountPath']}/token"
    assert "subPath" not in mount, "renewals would not arrive"
    [volume] = [each for each in given["volumes"] if each["name"] == "kafka-token"]
    assert volume["projected"]["sources"] == [
        {"serviceAccountToken": {"audience": "kafka", "expirationSeconds": 3600, "path": "token"}}
    ]


@pytest.mark.parametrize(
    ("token", "named"),
    [
        ({"audience": "a b"}, "/kafka/serviceAccountToken/audience"),
        ({"audience": "kafka", "expirationSeconds": 60}, "/kafka/serviceAccountToken/expirationSeconds"),
    ],
)
def test_malformed_values_of_the_token_are_refused(release: Release, token: Any, named: str) -> None:
    with pytest.raises(HelmFailed, match=named):
        release.manifests({"kafka": {"serviceAccountToken": token}})
