"""Mutual authentication of a Worker's members and leaders and of Kafka."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import ConfigDict, Field, model_validator

from cooperator.crd.base import Lenient, Model
from cooperator.crd.pod import ObjectName
from cooperator.crd.rules import Form, Rule, all_hold


class SecurityProtocol(StrEnum):
    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def encrypted(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def authenticated(self) -> bool:
        """Whether the protocol authenticates by name and password."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class SaslMechanism(StrEnum):
    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


SecretKey = Annotated[
    str, Form(r"[-._a-zA-Z0-9]+", "use a key of the Secret: letters, digits, '-', '_' and '.'", 253)
]


class SecretReference(Model):
    """A Secret in the same namespace."""

    name: ObjectName = Field(description="the Secret's name")


class CaReference(Model):
    """The certificates of authorities, in a Secret in the same namespace."""

    name: ObjectName = Field(description="the Secret's name")
    key: SecretKey = Field(default="ca.crt", description="the key whose value is the PEM text")


class Sasl(Model):
    """User name and password for Kafka."""

    mechanism: Annotated[SaslMechanism, Lenient] = Field(description="SASL mechanism")
    secret_ref: SecretReference = Field(description="the Secret with user name and password")
    username_key: SecretKey = Field(default="username", description="the Secret's key for the user name")
    password_key: SecretKey = Field(default="password", description="the Secret's key for the password")


class Tls(Model):
    """Certificates for encrypted connections to Kafka."""

    ca_secret_ref: CaReference | None = Field(
        default=None,
        description="the authorities that signed the brokers' certificates; default: the image's",
    )
    certificate_secret_ref: SecretReference | None = Field(
        default=None,
        description="a Secret with tls.crt and tls.key, the client certificate",
    )
    verify_hostname: bool = Field(
        default=True, description="whether a broker's certificate must match its host name"
    )


class Kafka(Model):
    """Security of the connections to Kafka. The operator reads the Secrets and mounts them into members."""

    model_config = ConfigDict(
        json_schema_extra=all_hold(
            Rule(
                "!self.securityProtocol.startsWith('SASL_') || has(self.sasl)",
                "this securityProtocol requires a user name and a password: add sasl: {mechanism: "
                "SCRAM-SHA-512, secretRef: {name: …}}",
            ),
            Rule(
                "!has(self.sasl) || self.securityProtocol.startsWith('SASL_')",
                "sasl is set, but this securityProtocol does not use a password: remove sasl, or set "
                "securityProtocol to SASL_SSL or SASL_PLAINTEXT",
            ),
            Rule(
                "!has(self.tls) || self.securityProtocol.endsWith('SSL')",
                "tls is set, but this securityProtocol does not encrypt: remove tls, or set "
                "securityProtocol to SSL or SASL_SSL",
            ),
        )
    )

    security_protocol: Annotated[SecurityProtocol, Lenient] = Field(
        default=SecurityProtocol.PLAINTEXT,
        description="PLAINTEXT, encrypted (SSL), with user name and password (SASL), or both",
    )
    sasl: Sasl | None = Field(
        default=None, description="user name and password, for SASL_PLAINTEXT and SASL_SSL"
    )
    tls: Tls | None = Field(default=None, description="certificates, for SSL and SASL_SSL")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        protocol = self.security_protocol
        if protocol.authenticated and self.sasl is None:
            raise ValueError(
                f"securityProtocol {protocol} requires a user name and a password: add sasl: "
                "{mechanism: SCRAM-SHA-512, secretRef: {name: …}}"
            )
        if self.sasl is not None and not protocol.authenticated:
            secure = "SASL_SSL" if protocol.encrypted else "SASL_PLAINTEXT"
            raise ValueError(
                f"sasl is set, but securityProtocol {protocol} does not use a password: remove sasl, or set "
                f"securityProtocol: {secure}"
            )
        if self.tls is not None and not protocol.encrypted:
            secure = "SASL_SSL" if protocol.authenticated else "SSL"
            raise ValueError(
                f"tls is set, but securityProtocol {protocol} does not encrypt: remove tls, or set "
                f"securityProtocol: {secure}"
            )
        return self
