"""Settings with which connectors access Kafka: the settings of their Worker by default, or with settings of
their own.

The options have Kafka's names. Their defaults are references to the Worker's own settings, which each member
resolves for itself; a password is never part of a configuration. A connector that sets ``bootstrap.servers``
to other brokers inherits no security options: the Worker's credentials are never sent to them.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, model_validator

from cooperator.connectors.options import LocalFile, OptionError, Problem, option, refuse
from cooperator.connectors.references import contains_reference
from cooperator.connectors.spark import SparkOptions
from cooperator.model.text import choice
from cooperator.oauthbearer import MECHANISM, OAuthLogin, java_properties, librdkafka_properties, token_file
from cooperator.oauthbearer.login import CA, CLIENT_ID, CLIENT_SECRET, HANDLER, SCOPE, URL, url_problem

_SERVERS = "bootstrap.servers"
_LOGIN = ("security.protocol", "sasl.mechanism")
"""Another way to log in could show the Worker's password, as without encryption."""
_ENCRYPTED = ("SSL", "SASL_SSL")
_AUTHENTICATED = ("SASL_PLAINTEXT", "SASL_SSL")
_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


_FILE_HANDLER = "dev.cooperator.spark.TokenFileLogin"
_MECHANISMS = (*_LOGIN_MODULES, MECHANISM)


def _one_of(*words: str) -> AfterValidator:
    """Accepts the given words, an empty value, or a reference (which is not checked)."""

    def check(value: str) -> str:
        if value and value not in words and not contains_reference(value):
            raise refuse("is unknown", choice(value, words))
        return value

    return AfterValidator(check)


Protocol = Annotated[str, _one_of("PLAINTEXT", *_ENCRYPTED[:1], *_AUTHENTICATED)]
Mechanism = Annotated[str, _one_of(*_MECHANISMS)]


def _endpoint(value: str) -> str:
    if value and not contains_reference(value) and (problem := url_problem(value)):
        raise refuse(*problem.split(": ", 1))
    return value


TokenEndpoint = Annotated[str, AfterValidator(_endpoint)]
Identification = Annotated[str, _one_of("https", "none")]


def _as_worker(name: str, *, goes_with: tuple[str, ...] = (), **rest: Any) -> Any:
    """Declares an option whose default is the Worker's own setting, unless other brokers are named."""
    return option(name, f"${{worker.{name}}}", goes_with=(_SERVERS, *goes_with), **rest)


class KafkaOptions(SparkOptions):
    """Kafka's address, and the options for encryption and authentication."""

    bootstrap_servers: str = option(
        _SERVERS,
        "${worker.bootstrap.servers}",
        expected="host:port, or several separated by commas (default: the Worker's cluster)",
        min_length=1,
    )
    security_protocol: Protocol = _as_worker(
        "security.protocol", expected="PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"
    )
    sasl_mechanism: Mechanism = _as_worker(
        "sasl.mechanism", expected="PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"
    )
    sasl_username: str = _as_worker("sasl.username", goes_with=_LOGIN, expected="the user name")
    sasl_password: str = _as_worker(
        "sasl.password",
        expected="a reference to its password, such as ${file:/etc/secrets/kafka:password}",
        secret=True,
        goes_with=("sasl.username", *_LOGIN),
    )
    token_endpoint_url: TokenEndpoint = _as_worker(
        URL,
        expected="https://… (the token endpoint for client credentials) or file:///… (a file with the token)",
        goes_with=_LOGIN,
    )
    oauth_client_id: str = _as_worker(CLIENT_ID, expected="the client id", goes_with=(URL, *_LOGIN))
    oauth_client_secret: str = _as_worker(
        CLIENT_SECRET,
        expected="a reference to the client secret, such as ${file:/etc/secrets/kafka:secret}",
        secret=True,
        # Another endpoint, or one that another authority vouches for, could be shown the Worker's secret.
        goes_with=(CLIENT_ID, URL, CA, *_LOGIN),
    )
    oauth_scope: str = _as_worker(SCOPE, expected="the scope of tokens", goes_with=(URL, *_LOGIN))
    oauth_ca: LocalFile = _as_worker(
        CA,
        expected="a PEM file on every member: the CAs of the token endpoint (default: the system's)",
        local_path=True,
        goes_with=(URL,),
    )
    ssl_ca: LocalFile = _as_worker(
        "ssl.ca.location",
        expected="a PEM file on every member: the CAs of brokers' certificates (default: the system's)",
        local_path=True,
    )
    ssl_certificate: LocalFile = _as_worker(
        "ssl.certificate.location",
        expected="a PEM file on every member: the client certificate",
        local_path=True,
    )
    ssl_key: LocalFile = _as_worker(
        "ssl.key.location",
        expected="a PEM file on every member: its private key (PKCS #8, without a password)",
        local_path=True,
        goes_with=("ssl.certificate.location",),
    )
    ssl_identification: Identification = _as_worker(
        "ssl.endpoint.identification.algorithm",
        expected="https (a broker's certificate must match its host name) or none",
    )

    @classmethod
    def opened_paths(cls, config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        yield from super().opened_paths(config)
        if token_file(config.get(URL, "")) is not None:
            yield URL, config[URL]

    @model_validator(mode="after")
    def _can_log_in(self) -> Self:
        if self.security_protocol not in _AUTHENTICATED:
            return self
        needed = {"sasl.mechanism": (self.sasl_mechanism, f"use one of {', '.join(_MECHANISMS)}")}
        if self.sasl_mechanism != MECHANISM:
            needed["sasl.username"] = (self.sasl_username, "set the user name")
            needed["sasl.password"] = (self.sasl_password, "set a reference to the password")
        else:
            needed[URL] = (self.token_endpoint_url, "set the URL of the token endpoint")
            if token_file(self.token_endpoint_url) is None:
                needed[CLIENT_ID] = (self.oauth_client_id, "set the client id")
                needed[CLIENT_SECRET] = (self.oauth_client_secret, "set a reference to the client secret")
        for name, (value, remedy) in needed.items():
            if not value:
                remedy += ", or remove bootstrap.servers to use the Worker's access"
                raise refuse(f"is required by security.protocol {self.security_protocol}", remedy, name)
        return self

    @model_validator(mode="after")
    def _whole_certificate(self) -> Self:
        if bool(self.ssl_certificate) != bool(self.ssl_key):
            missing = "ssl.key.location" if self.ssl_certificate else "ssl.certificate.location"
            raise refuse("is required, too", "set both certificate and key, or neither", missing)
        return self


def of_librdkafka(options: KafkaOptions) -> dict[str, Any]:
    """Returns the properties of confluent-kafka clients."""
    protocol = options.security_protocol
    found = {"bootstrap.servers": options.bootstrap_servers}
    if protocol and protocol != "PLAINTEXT":
        found["security.protocol"] = protocol
    if protocol in _AUTHENTICATED:
        found["sasl.mechanism"] = options.sasl_mechanism
        if options.sasl_mechanism == MECHANISM:
            _check_readable(CA, options.oauth_ca)
            found |= librdkafka_properties(_oauth(options))
        else:
            found["sasl.username"] = options.sasl_username
            found["sasl.password"] = options.sasl_password
    if protocol in _ENCRYPTED:
        more = {
            "ssl.ca.location": options.ssl_ca,
            "ssl.certificate.location": options.ssl_certificate,
            "ssl.key.location": options.ssl_key,
            "ssl.endpoint.identification.algorithm": options.ssl_identification,
        }
        for name, value in more.items():
            if name.endswith("location"):
                _check_readable(name, value)
        found |= {name: value for name, value in more.items() if value}
    return found


def of_spark(options: KafkaOptions) -> dict[str, str]:
    """Returns the options of Spark's Kafka source and sink."""
    return {f"kafka.{name}": value for name, value in of_java(options).items()}


def of_java(options: KafkaOptions) -> dict[str, str]:
    """Returns the properties of Java's clients.

    The contents of certificate files are inlined, so that executors on other machines have them.
    """
    protocol = options.security_protocol
    found = {"bootstrap.servers": options.bootstrap_servers}
    if protocol and protocol != "PLAINTEXT":
        found["security.protocol"] = protocol
    if protocol in _AUTHENTICATED:
        found |= _java_login(options)
    if protocol in _ENCRYPTED:
        found |= _stores(options)
        if options.ssl_identification:
            found["ssl.endpoint.identification.algorithm"] = (
                "" if options.ssl_identification == "none" else options.ssl_identification
            )
    return found


def _oauth(options: KafkaOptions) -> OAuthLogin:
    return OAuthLogin(
        options.token_endpoint_url,
        options.oauth_client_id,
        options.oauth_client_secret,
        options.oauth_scope,
        options.oauth_ca,
    )


def _java_login(options: KafkaOptions) -> Mapping[str, str]:
    if options.sasl_mechanism == MECHANISM:
        ca = {}
        if options.oauth_ca:
            ca = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": _pem(CA, options.oauth_ca)}
        login = _oauth(options)
        return java_properties(login, ca, HANDLER if login.file is None else _FILE_HANDLER)
    return {
        "sasl.mechanism": options.sasl_mechanism,
        "sasl.jaas.config": (
            f"{_LOGIN_MODULES[options.sasl_mechanism]} required "
            f"username={_quoted(options.sasl_username)} password={_quoted(options.sasl_password)};"
        ),
    }


def _stores(options: KafkaOptions) -> Mapping[str, str]:
    found: dict[str, str] = {}
    if options.ssl_ca:
        found["ssl.truststore.type"] = "PEM"
        found["ssl.truststore.certificates"] = _pem("ssl.ca.location", options.ssl_ca)
    if options.ssl_certificate:
        found["ssl.keystore.type"] = "PEM"
        chain = _pem("ssl.certificate.location", options.ssl_certificate)
        found["ssl.keystore.certificate.chain"] = chain
        found["ssl.keystore.key"] = _pem("ssl.key.location", options.ssl_key)
    return found


def _check_readable(name: str, path: str) -> None:
    if path:
        _pem(name, path)


def _pem(name: str, path: str) -> str:
    """Returns the file's contents. Raises ``OptionError`` when it cannot be read."""
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        problem = Problem(name, path, f"cannot be read here ({reason})", "put it there on every member")
        raise OptionError([problem], passing=True) from None


def _quoted(text: str) -> str:
    """Quotes a value for a JAAS configuration."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
