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
        """Whether the protocol authenticates by SASL."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class SaslMechanism(StrEnum):
    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


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


TokenUrl = Annotated[
    str,
    Form(
        r"https?://[^\s/@?#]+(/[^\s?#]*)?",
        "use https://HOST/PATH, without a user name, a query or blanks",
        2000,
    ),
]
Scope = Annotated[str, Form(r"[!-~]+( [!-~]+)*", "use words separated by single blanks", 2000)]
Audience = Annotated[str, Form(r"\S+", "use the audience that the brokers expect, without blanks", 253)]


class ServiceAccountToken(Model):
    """A projected token of the pod's ServiceAccount, which the kubelet renews."""

    audience: Audience = Field(
        description="the audience that the brokers expect (sasl.oauthbearer.expected.audience)"
    )
    expiration_seconds: int = Field(
        default=3600, ge=600, le=86_400, description="requested lifetime of a token, in seconds"
    )


class OAuthBearer(Model):
    """The source of tokens for OAUTHBEARER."""

    model_config = ConfigDict(
        json_schema_extra=all_hold(
            Rule(
                "has(self.tokenEndpointUrl) != has(self.serviceAccountToken)",
                "tokens come from one source: set either tokenEndpointUrl or serviceAccountToken",
            ),
            Rule(
                "has(self.tokenEndpointUrl) || !(has(self.scope) || has(self.caSecretRef))",
                "scope and caSecretRef apply to tokenEndpointUrl only: remove them",
            ),
        )
    )

    token_endpoint_url: TokenUrl | None = Field(
        default=None,
        description="the token endpoint for client credentials (sasl.oauthbearer.token.endpoint.url); "
        "secretRef has the client id and the client secret",
    )
    scope: Scope | None = Field(default=None, description="scope of tokens (sasl.oauthbearer.scope)")
    ca_secret_ref: CaReference | None = Field(
        default=None,
        description="the authorities that signed the token endpoint's certificate; default: the image's",
    )
    service_account_token: ServiceAccountToken | None = Field(
        default=None, description="log in with the token of the pod's ServiceAccount"
    )

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if (self.token_endpoint_url is None) == (self.service_account_token is None):
            raise ValueError(
                "tokens come from one source: set either tokenEndpointUrl or serviceAccountToken"
            )
        if self.token_endpoint_url is None and (self.scope is not None or self.ca_secret_ref is not None):
            raise ValueError("scope and caSecretRef apply to tokenEndpointUrl only: remove them")
        return self


class Sasl(Model):
    """The login to Kafka: user name and password, or tokens."""

    model_config = ConfigDict(
        json_schema_extra=all_hold(
            Rule(
                "(self.mechanism == 'OAUTHBEARER') == has(self.oauthbearer)",
                "mechanism OAUTHBEARER and oauthbearer belong together: set both, or neither",
            ),
            Rule(
                "has(self.oauthbearer) && has(self.oauthbearer.serviceAccountToken) != has(self.secretRef) "
                "|| !has(self.oauthbearer) && has(self.secretRef)",
                "the login requires a Secret: set secretRef; remove it with oauthbearer.serviceAccountToken",
            ),
        )
    )

    mechanism: Annotated[SaslMechanism, Lenient] = Field(description="SASL mechanism")
    secret_ref: SecretReference | None = Field(
        default=None, description="the Secret with user name and password, or client id and client secret"
    )
    username_key: SecretKey = Field(
        default="username", description="the Secret's key for the user name, or the client id"
    )
    password_key: SecretKey = Field(
        default="password", description="the Secret's key for the password, or the client secret"
    )
    oauthbearer: OAuthBearer | None = Field(
        default=None, description="the source of tokens, for mechanism OAUTHBEARER"
    )

    @property
    def service_account_token(self) -> ServiceAccountToken | None:
        return self.oauthbearer.service_account_token if self.oauthbearer is not None else None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.mechanism is SaslMechanism.OAUTHBEARER and self.oauthbearer is None:
            raise ValueError(
                "mechanism OAUTHBEARER requires a source of tokens: add oauthbearer: {tokenEndpointUrl: …}"
            )
        if self.mechanism is not SaslMechanism.OAUTHBEARER and self.oauthbearer is not None:
            raise ValueError(
                f"oauthbearer is set, but mechanism {self.mechanism} uses a password: remove it, or set "
                "mechanism: OAUTHBEARER"
            )
        if self.service_account_token is not None and self.secret_ref is not None:
            raise ValueError("secretRef is not used with oauthbearer.serviceAccountToken: remove it")
        if self.service_account_token is None and self.secret_ref is None:
            what = "a user name and a password" if self.oauthbearer is None else "client id and client secret"
            raise ValueError(f"secretRef is missing: name a Secret with {what}")
        return self


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
        description="PLAINTEXT, encrypted (SSL), with a login (SASL), or both",
    )
    sasl: Sasl | None = Field(default=None, description="the login, for SASL_PLAINTEXT and SASL_SSL")
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
