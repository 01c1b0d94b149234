"""A member resolves references from allowed places only, and no repr shows their values."""

from pathlib import Path

import pytest

from cooperator.connectors.references import Resolver, UnresolvedReference

RESOLVER = Resolver({"PASSWORD": "hunter2", "OTHER": "x"}, frozenset({"PASSWORD", "ABSENT"}), "kafka:9092")


def test_values_come_from_the_environment_files_and_the_worker(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("# user=wrong\nuser = ann\npassword=a=b:c\n")
    config = {
        "plain": "as it is: $HOME {x}",
        "url": "jdbc://${file:" + str(secrets) + ":user}:${env:PASSWORD}@db",
        "password": "${file:" + str(secrets) + ":password}",
        "servers": "${worker.bootstrap.servers}",
    }
    resolved = RESOLVER.resolve(config)
    assert resolved.config == {
        "plain": "as it is: $HOME {x}",
        "url": "jdbc://ann:hunter2@db",
        "password": "a=b:c",
        "servers": "kafka:9092",
    }
    assert resolved.scrub("ann at kafka:9092 said hunter2 and a=b:c") == "*** at kafka:9092 said *** and ***"


def test_neither_resolver_nor_result_shows_a_value() -> None:
    assert "hunter2" not in repr(RESOLVER)
    assert "hunter2" not in repr(RESOLVER.resolve({"a": "${env:PASSWORD}"}))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            "${env:OTHER}",
            "option 'a': ${env:OTHER}: OTHER is not on this Worker's allow-list; add it to spec.envAllowed",
        ),
        (
            "${env:ABSENT}",
            "option 'a': ${env:ABSENT}: ABSENT is not set on this member; set it in the Worker's template",
        ),
        (
            "${file:/nowhere:k}",
            "option 'a': ${file:/nowhere:k}: /nowhere cannot be read on this member (No such file or "
            "directory); "
            "mount it there",
        ),
        (
            "${vault:x}",
            "option 'a': ${vault:x} is not a reference; write ${env:NAME}, ${file:PATH:KEY} or "
            "${worker.NAME}, where NAME is one of bootstrap.servers, security.protocol, sasl.mechanism, "
            "sasl.username, "
            "sasl.password, ssl.ca.location, ssl.certificate.location, ssl.key.location, "
            "ssl.endpoint.identification.algorithm",
        ),
    ],
)
def test_an_unresolvable_reference_is_named_with_its_remedy(value: str, message: str) -> None:
    with pytest.raises(UnresolvedReference) as refused:
        RESOLVER.resolve({"a": value})
    assert str(refused.value) == message
    assert "hunter2" not in str(refused.value)
