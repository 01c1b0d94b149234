"""``cooperator import``: manifests of a running Kafka Connect cluster. It changes nothing."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from cooperator.crd.base import ObjectMeta
from cooperator.crd.connect import Topics
from cooperator.crd.imported import Imported, ImportedCluster, imported, why
from cooperator.crd.kafka import Kafka, SaslMechanism, SecurityProtocol
from cooperator.group import GroupState, GroupUnavailable, describe_group
from cooperator.host.security import client_settings, text_of
from cooperator.leader.ownership import adoption_refusals
from cooperator.logs import LogsConfig, LogUnavailable, read_logs
from cooperator.logs import Topics as LogTopics
from cooperator.oauthbearer import LoginInvalid
from cooperator.terminal.console import Console, say, write

_NO_FILE = "(a file, since command lines are visible to other users)"


class ImportRefused(Exception):
    """The cluster cannot be imported; the message names the option, its value and the remedy."""


def import_(
    bootstrap_servers: Annotated[str, typer.Option(help="Bootstrap servers, host:port[,host:port…].")],
    group: Annotated[str, typer.Option(help="group.id of the cluster.")],
    config_topic: Annotated[
        str | None, typer.Option(help="config.storage.topic of the cluster; default GROUP-configs.")
    ] = None,
    offset_topic: Annotated[
        str | None, typer.Option(help="offset.storage.topic of the cluster; default GROUP-offsets.")
    ] = None,
    status_topic: Annotated[
        str | None, typer.Option(help="status.storage.topic of the cluster; default GROUP-status.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the Worker; default: the group id.")] = None,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Namespace of all resources.")
    ] = "default",
    security_protocol: Annotated[
        SecurityProtocol, typer.Option(help="Security protocol of the broker's listener.")
    ] = SecurityProtocol.PLAINTEXT,
    sasl_mechanism: Annotated[SaslMechanism | None, typer.Option(help="SASL mechanism.")] = None,
    username: Annotated[str, typer.Option(help="User name for Kafka.")] = "",
    password_file: Annotated[
        Path | None, typer.Option(help=f"Password of that user {_NO_FILE}.", exists=True, dir_okay=False)
    ] = None,
    sasl_oauthbearer_token_endpoint_url: Annotated[
        str, typer.Option(help="OAUTHBEARER: token endpoint; user name and password are the client's.")
    ] = "",
    sasl_oauthbearer_scope: Annotated[str, typer.Option(help="OAUTHBEARER: scope of tokens.")] = "",
    ca_file: Annotated[Path | None, typer.Option(help="CA certificates of the brokers.", exists=True)] = None,
    certificate_file: Annotated[Path | None, typer.Option(help="Client certificate.", exists=True)] = None,
    key_file: Annotated[
        Path | None, typer.Option(help="Private key of the client certificate.", exists=True)
    ] = None,
) -> None:
    """Print manifests of a running Kafka Connect cluster: a Worker that adopts it, and its connectors.

    Only the config topic is read; the command joins no group and writes nothing. Secrets are not copied: a
    comment names each.
    """
    console = Console()
    try:
        password = _password(password_file)
        settings = client_settings(
            security_protocol,
            mechanism=sasl_mechanism.value if sasl_mechanism else "",
            username=username,
            password=password,
            ca_file=ca_file,
            certificate_file=certificate_file,
            key_file=key_file,
            token_endpoint_url=sasl_oauthbearer_token_endpoint_url,
            scope=sasl_oauthbearer_scope,
        )
        name = _checked(name or group)
        oauth = {}
        if sasl_mechanism is SaslMechanism.OAUTHBEARER:
            oauth = {
                "tokenEndpointUrl": sasl_oauthbearer_token_endpoint_url,
                "scope": sasl_oauthbearer_scope or None,
            }
        kafka = _kafka(name, security_protocol, sasl_mechanism, oauth, ca_file, certificate_file)
        topics = Topics(config=config_topic, offset=offset_topic, status=status_topic)
        found = _import(bootstrap_servers, group, topics, kafka, settings, name, namespace)
    except ValidationError as error:
        console.error(why(error))
        raise typer.Exit(1) from None
    except (ImportRefused, LoginInvalid, GroupUnavailable, LogUnavailable) as error:
        console.error(str(error))
        raise typer.Exit(1) from None
    write(found.text(), end="")
    for warning in found.warnings:
        say(f"warning: {warning}")


def _checked(name: str) -> str:
    try:
        return ObjectMeta(name=name).name
    except ValidationError as error:
        raise ImportRefused(f"--name {name!r}, of the Worker: {why(error)}") from None


def _import(
    bootstrap_servers: str,
    group: str,
    topics: Topics,
    kafka: Kafka,
    settings: Mapping[str, Any],
    name: str,
    namespace: str,
) -> Imported:
    described = describe_group(bootstrap_servers, group, settings)
    if described.state is GroupState.DEAD:
        raise ImportRefused(f"group {group!r} does not exist on {bootstrap_servers}: check --group")
    names = LogTopics.of(group)
    config_topic = topics.config or names.config
    logs = LogTopics(config_topic, topics.status or names.status, names.leader)
    read = read_logs(LogsConfig(bootstrap_servers, group, settings, logs))
    config = read.config
    if config is None:
        raise ImportRefused(
            f"topic {config_topic!r} does not exist: set --config-topic to the config.storage.topic of the "
            "cluster's workers"
        )
    cluster = ImportedCluster(bootstrap_servers, group, topics, kafka)
    members = [(member.client_id, member.metadata) for member in described.members]
    owner = read.leader.owner if read.leader is not None else None
    refusals = adoption_refusals(group, owner, members, (namespace, name), config_topic, read.config_end)
    return imported(cluster, config, name, namespace, refusals)


def _kafka(
    name: str,
    protocol: SecurityProtocol,
    mechanism: SaslMechanism | None,
    oauth: Mapping[str, str | None],
    ca_file: Path | None,
    certificate_file: Path | None,
) -> Kafka:
    """``spec.kafka`` of the Worker. You must create the Secrets that it names."""
    spec: dict[str, object] = {"securityProtocol": protocol.value}
    if protocol.authenticated:
        if mechanism is None:
            raise ImportRefused(f"--security-protocol {protocol.value} requires --sasl-mechanism")
        sasl: dict[str, object] = {"mechanism": mechanism.value, "secretRef": {"name": f"{name}-kafka"}}
        spec["sasl"] = {**sasl, "oauthbearer": dict(oauth)} if oauth else sasl
    tls: dict[str, object] = {}
    if ca_file is not None:
        tls["caSecretRef"] = {"name": f"{name}-kafka-ca"}
    if certificate_file is not None:
        tls["certificateSecretRef"] = {"name": f"{name}-kafka-certificate"}
    if tls:
        spec["tls"] = tls
    return Kafka.model_validate(spec)


def _password(file: Path | None) -> str:
    if file is None:
        return ""
    try:
        return text_of(file.read_bytes())
    except ValueError as error:
        raise ImportRefused(f"--password-file {file}: {error}") from None
