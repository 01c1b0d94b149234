"""Members of a Worker that logs in to Kafka by tokens: their files and options."""

from cooperator.controller.manifests.children import references
from cooperator.controller.manifests.pods import template
from tests.controller.test_pure_parts import DEFAULTS
from tests.controller.workers import worker


def test_members_get_tokens_of_an_endpoint_with_the_secrets_client() -> None:
    made = template(
        worker(
            "{kafka: {securityProtocol: SASL_SSL, sasl: {mechanism: OAUTHBEARER, "
            "secretRef: {name: s1}, oauthbearer: {tokenEndpointUrl: 'https://idp.example/token', scope: a b, "
            "caSecretRef: {name: s2}}}}}"
        ),
        DEFAULTS,
    )
    assert references(made) == {("Secret", "s1"), ("Secret", "s2")}
    args = made["spec"]["containers"][0]["args"]
    found = {word: args[args.index(word) + 1] for word in args if word.startswith("--sasl")}
    assert found == {
        "--sasl-mechanism": "OAUTHBEARER",
        "--sasl-username-file": "/etc/cooperator/kafka/sasl/username",
        "--sasl-password-file": "/etc/cooperator/kafka/sasl/password",
        "--sasl-oauthbearer-token-endpoint-url": "https://idp.example/token",
        "--sasl-oauthbearer-scope": "a b",
        "--sasl-oauthbearer-ca-file": "/etc/cooperator/kafka/token-ca/ca.crt",
    }


def test_members_get_a_projected_token_that_the_kubelet_renews() -> None:
    made = template(
        worker(
            "{kafka: {securityProtocol: SASL_SSL, sasl: {mechanism: OAUTHBEARER, "
            "oauthbearer: {serviceAccountToken: {audience: kafka, expirationSeconds: 600}}}}}"
        ),
        DEFAULTS,
    )
    [volume] = [each for each in made["spec"]["volumes"] if "projected" in each]
    assert volume["projected"]["sources"] == [
        {"serviceAccountToken": {"audience": "kafka", "expirationSeconds": 600, "path": "token"}}
    ]
    [container] = made["spec"]["containers"]
    [path] = [mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == volume["name"]]
    assert f"file://{path}/token" in container["args"]
    assert "--sasl-username-file" not in container["args"]
    assert made["spec"]["automountServiceAccountToken"] is False
