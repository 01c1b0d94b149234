"""``cooperator worker``: one member, with its Spark."""

import os
from pathlib import Path
from typing import Annotated

import typer

from cooperator.agent.options import RuntimeKind, WorkerOptions
from cooperator.agent.pod import begin_incarnation
from cooperator.cli.options import LogFormatOption, address
from cooperator.connectors.extras import needs_of_members
from cooperator.crd.kafka import SaslMechanism, SecurityProtocol
from cooperator.host.security import client_settings, text_of
from cooperator.log_lines import LogFormat, log_to_stderr
from cooperator.model.extras import NotInstalled
from cooperator.oauthbearer import token_file
from cooperator.supervision import supervise_process
from cooperator.terminal.console import Console


def worker(
    group_id: Annotated[str, typer.Option(help="Group id in Kafka.")],
    bootstrap_servers: Annotated[str, typer.Option(help="Bootstrap servers, host:port[,host:port…].")],
    identity: Annotated[str, typer.Option(help="Name of the member, which survives restarts.")],
    state_dir: Annotated[
        Path, typer.Option(help="Directory for the member's own files: logs and scratch.", file_okay=False)
    ],
    checkpoints: Annotated[
        str, typer.Option(help="Checkpoints, shared by all members: a directory, or s3a://bucket/path.")
    ],
    incarnation: Annotated[
        str, typer.Option(help="Incarnation of the member, unique per start. Default: from --pod-uid.")
    ] = "",
    pod_uid: Annotated[str, typer.Option(help="Uid of the Kubernetes pod that the member runs in.")] = "",
    listen: Annotated[
        str, typer.Option(help="host:port of the member's endpoint; port 0 picks a free one.")
    ] = "127.0.0.1:0",
    advertised_host: Annotated[
        str, typer.Option(help="Host at which others reach the member; default: the listening host.")
    ] = "",
    capacity: Annotated[float, typer.Option(help="Capacity of the member, relative to other members.")] = 1.0,
    zone: Annotated[str, typer.Option(help="Zone of the member.")] = "",
    session_timeout_ms: Annotated[
        int, typer.Option(help="Time without heartbeats after which the broker drops the member.")
    ] = 10_000,
    heartbeat_interval_ms: Annotated[int, typer.Option(help="Interval of heartbeats.")] = 3_000,
    rebalance_timeout_ms: Annotated[
        int, typer.Option(help="Time that a round waits for the member.")
    ] = 30_000,
    drain_timeout_ms: Annotated[
        int, typer.Option(help="Limit for handing over tasks when the member leaves.")
    ] = 300_000,
    revocation_timeout_ms: Annotated[
        int, typer.Option(help="A revoked task that has not stopped after this ends the member's process.")
    ] = 60_000,
    heap_mb: Annotated[int, typer.Option(help="Heap of the JVM.")] = 1024,
    spark_conf: Annotated[list[str] | None, typer.Option(help="Spark setting, NAME=VALUE.")] = None,
    spark_package: Annotated[
        list[str] | None, typer.Option(help="Java library, group:artifact:version.")
    ] = None,
    spark_jar: Annotated[list[Path] | None, typer.Option(help="Jar file for Spark's class path.")] = None,
    env_allowed: Annotated[
        list[str] | None, typer.Option(help="Environment variable that connectors may refer to.")
    ] = None,
    allowed_file_reference: Annotated[
        list[str] | None, typer.Option(help="Path below which connectors may refer to files.")
    ] = None,
    allowed_path: Annotated[
        list[str] | None,
        typer.Option(
            help="Path or URI below which connectors may read and write. Default: not the system's."
        ),
    ] = None,
    runtime: Annotated[
        RuntimeKind, typer.Option(envvar="COOPERATOR_RUNTIME", help="inline: no Spark, class noop only.")
    ] = RuntimeKind.SPARK,
    security_protocol: Annotated[
        SecurityProtocol, typer.Option(help="Security protocol of the connections to Kafka.")
    ] = SecurityProtocol.PLAINTEXT,
    sasl_mechanism: Annotated[
        SaslMechanism, typer.Option(help="SASL mechanism.")
    ] = SaslMechanism.SCRAM_SHA_512,
    sasl_username_file: Annotated[
        Path | None,
        typer.Option(help="File with the user name for Kafka; OAUTHBEARER: with the client id."),
    ] = None,
    sasl_password_file: Annotated[
        Path | None, typer.Option(help="File with the password; OAUTHBEARER: with the client secret.")
    ] = None,
    sasl_oauthbearer_token_endpoint_url: Annotated[
        str, typer.Option(help="OAUTHBEARER: token endpoint, or file:///PATH of a file with the token.")
    ] = "",
    sasl_oauthbearer_scope: Annotated[str, typer.Option(help="OAUTHBEARER: scope of tokens.")] = "",
    sasl_oauthbearer_ca_file: Annotated[
        Path | None,
        typer.Option(help="OAUTHBEARER: PEM file with the CAs of the token endpoint. Default: the system's."),
    ] = None,
    ssl_ca_file: Annotated[
        Path | None,
        typer.Option(help="PEM file with the CAs of brokers' certificates. Default: the system's."),
    ] = None,
    ssl_certificate_file: Annotated[
        Path | None, typer.Option(help="PEM file with the client certificate.")
    ] = None,
    ssl_key_file: Annotated[
        Path | None, typer.Option(help="PEM file with the client certificate's private key.")
    ] = None,
    ssl_verify_hostname: Annotated[
        bool, typer.Option(help="Require that a broker's certificate matches its host name.")
    ] = True,
    leader_ca_file: Annotated[
        Path | None,
        typer.Option(help="PEM file with the CA of a leader that serves https. Default: the system's."),
    ] = None,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Join a Worker's group and run the tasks that its leader assigns. SIGTERM: hand over, then exit."""
    host, port = address(listen)
    token_url = sasl_oauthbearer_token_endpoint_url
    try:
        security = client_settings(
            security_protocol,
            mechanism=sasl_mechanism.value,
            username=_secret("--sasl-username-file", sasl_username_file, security_protocol, token_url),
            password=_secret("--sasl-password-file", sasl_password_file, security_protocol, token_url),
            ca_file=_readable("--ssl-ca-file", ssl_ca_file),
            certificate_file=_readable("--ssl-certificate-file", ssl_certificate_file),
            key_file=_readable("--ssl-key-file", ssl_key_file),
            verify_hostname=ssl_verify_hostname,
            token_endpoint_url=token_url,
            scope=sasl_oauthbearer_scope,
            token_ca_file=_readable("--sasl-oauthbearer-ca-file", sasl_oauthbearer_ca_file),
        )
        options = WorkerOptions(
            group_id=group_id,
            bootstrap_servers=bootstrap_servers,
            identity=identity,
            incarnation=incarnation or (begin_incarnation(pod_uid, state_dir.absolute()) if pod_uid else ""),
            state_dir=state_dir.absolute(),
            checkpoints=checkpoints if "://" in checkpoints else Path(checkpoints).absolute(),
            host=host,
            port=port,
            advertised_host=advertised_host,
            runtime=runtime,
            capacity=capacity,
            zone=zone,
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=heartbeat_interval_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            lease_ms=max(40_000, rebalance_timeout_ms + heartbeat_interval_ms + 1),
            drain_timeout_ms=drain_timeout_ms,
            revocation_timeout_ms=revocation_timeout_ms,
            heap_mb=heap_mb,
            spark_conf=dict(_setting(setting) for setting in spark_conf or ()),
            spark_packages=tuple(spark_package or ()),
            spark_jars=tuple(jar.absolute() for jar in spark_jar or ()),
            env_allowed=frozenset(env_allowed or ()),
            allowed_files=tuple(allowed_file_reference or ()),
            allowed_paths=tuple(allowed_path or ()),
            leader_ca=leader_ca_file,
            group_security=security,
            log_security=security,
        )
    except ValueError as error:
        Console().error(str(error))
        raise typer.Exit(2) from None
    try:
        if options.runtime is RuntimeKind.SPARK:
            for need in needs_of_members(options.spark_conf, str(options.checkpoints)):
                need.check()
    except NotInstalled as error:
        # Joined, it would get tasks that it can never start.
        Console().error(str(error))
        raise typer.Exit(2) from None
    from cooperator.agent.main import run_worker

    log_to_stderr(log_format)
    supervise_process()
    code = run_worker(options)
    # Exit without waiting for threads of connectors and clients: the watchdog is gone by now.
    os._exit(code)


def _secret(option: str, file: Path | None, protocol: SecurityProtocol, token_url: str) -> str:
    """The content of the file. Raises ValueError, which does not contain it."""
    if not protocol.authenticated or token_file(token_url) is not None:
        return ""
    if file is None:
        raise ValueError(f"--security-protocol {protocol} requires {option}: use the file that contains it")
    try:
        return text_of(file.read_bytes())
    except OSError as error:
        raise ValueError(f"{option} {file}: {error.strerror}: use a readable file") from None
    except ValueError as error:
        raise ValueError(f"{option} {file} {error}: put the value there") from None


def _readable(option: str, file: Path | None) -> Path | None:
    """Check that a file is readable: the clients themselves would only report a TLS error."""
    if file is not None:
        try:
            file.read_bytes()
        except OSError as error:
            raise ValueError(f"{option} {file}: {error.strerror}: use a readable file") from None
    return file


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--spark-conf")
    return name, value
