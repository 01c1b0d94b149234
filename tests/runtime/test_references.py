"""A member resolves references from allowed places only, and no repr shows their values."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.connectors import references
from cooperator.connectors.references import Resolver, UnresolvedReference

ENVIRONMENT = {"PASSWORD": "hunter2", "OTHER": "x"}
RESOLVER = Resolver(ENVIRONMENT, frozenset({"PASSWORD", "ABSENT"}), ("/nowhere",), "kafka:9092")


def test_values_come_from_the_environment_files_and_the_worker(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("# user=wrong\nuser = ann\npassword=a=b:c\n")
    config = {
        "plain": "as it is: $HOME {x}",
        "url": "jdbc://${file:" + str(secrets) + ":user}:${env:PASSWORD}@db",
        "password": "${file:" + str(secrets) + ":password}",
        "servers": "${worker.bootstrap.servers}",
    }
    resolved = replace(RESOLVER, allowed_files=(str(tmp_path),)).resolve(config)
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
            "ssl.endpoint.identification.algorithm, sasl.oauthbearer.token.endpoint.url, "
            "sasl.oauthbearer.client.id, sasl.oauthbearer.client.secret, sasl.oauthbearer.scope, "
            "https.ca.location",
        ),
    ],
)
def test_an_unresolvable_reference_is_named_with_its_remedy(value: str, message: str) -> None:
    with pytest.raises(UnresolvedReference) as refused:
        RESOLVER.resolve({"a": value})
    assert str(refused.value) == message
    passes = ("is not set on this member", "cannot be read on this member", "has no key")
    assert refused.value.lasting != any(text in message for text in passes)
    assert "hunter2" not in str(refused.value)


def refused(resolver: Resolver, path: str) -> str:
    with pytest.raises(UnresolvedReference) as error:
        resolver.resolve({"a": "${file:" + path + "}"})
    return str(error.value)


def test_no_file_may_be_named_unless_the_worker_allows_its_path(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hunter2")
    none = replace(RESOLVER, allowed_files=())
    for path in (str(tmp_path / "secret"), "/proc/self/environ", "/etc/passwd", "/"):
        assert "add its directory to spec.allowedFileReferences" in refused(none, path)


def test_links_and_dots_do_not_lead_out_of_an_allowed_directory(tmp_path: Path) -> None:
    allowed, beside = tmp_path / "a", tmp_path / "ab"
    for directory in (allowed, beside):
        directory.mkdir()
        (directory / "key").write_text(directory.name)
    (allowed / "link").symlink_to(beside / "key")
    (allowed / "directory").symlink_to(beside)
    (allowed / "..data").symlink_to(allowed)
    (allowed / "dangling").symlink_to(beside / "later")
    resolver = replace(RESOLVER, allowed_files=(str(allowed),))
    for path in (
        *("link", "directory/key", "../ab/key", "./../ab/key", "//../ab/key"),
        *("directory/new/key", "dangling", "dangling/key", "..data/directory/key", "directory/../ab/key"),
    ):
        assert "is not below a path that this Worker allows" in refused(resolver, f"{allowed}/{path}")
    assert "is not below" in refused(resolver, str(beside / "key"))
    assert resolver.resolve({"a": "${file:" + f"{allowed}/..data/key" + "}"}).config == {"a": "a"}


def test_a_link_that_changes_after_the_check_is_not_followed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    for name in ("a/key", "secret"):
        (tmp_path / name).write_text(name)
    link = tmp_path / "a" / "link"
    link.symlink_to("key")
    check = references._is_below

    def checked(real: str, prefixes: Sequence[str]) -> bool:
        found = check(real, prefixes)
        link.unlink()
        link.symlink_to(tmp_path / "secret")
        return found

    monkeypatch.setattr(references, "_is_below", checked)
    resolver = replace(RESOLVER, allowed_files=(str(tmp_path / "a"),))
    assert resolver.resolve({"a": "${file:" + str(link) + "}"}).config == {"a": "a/key"}


@given(st.text(st.sampled_from("./ab\x00~%:${"), max_size=30))
def test_any_path_is_refused_or_below_what_is_allowed(path: str) -> None:
    resolver = replace(RESOLVER, allowed_files=("/nowhere/a",))
    with pytest.raises(UnresolvedReference):
        resolver.resolve({"a": "${file:/nowhere/a/" + path + "}", "b": "${file:/b}"})
