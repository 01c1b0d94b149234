"""A certificate authority for one control plane, and kubeconfigs for those whom it signs."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


@dataclass(frozen=True)
class Certificate:
    """Files in PEM."""

    certificate: Path
    key: Path


class Authority:
    """Signs for the servers and clients of one control plane; its files lie in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("cooperator-tests")
        certificate = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .not_valid_after(datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=30))
            .sign(self._key, hashes.SHA256())
        )
        self.own = self._write("ca", self._key, certificate)

    def server(
        self, name: str, hosts: Sequence[str], valid: datetime.timedelta = datetime.timedelta(days=30)
    ) -> Certificate:
        """For a server that is reached by ``hosts``: names and addresses. A negative ``valid`` has ended."""
        alternatives: list[x509.GeneralName] = []
        for host in hosts:
            try:
                alternatives.append(x509.IPAddress(ipaddress.ip_address(host)))
            except ValueError:
                alternatives.append(x509.DNSName(host))
        return self._sign(
            f"{name}-server",
            _name(name),
            ExtendedKeyUsageOID.SERVER_AUTH,
            x509.SubjectAlternativeName(alternatives),
            valid,
        )

    def client(self, user: str, group: str | None = None) -> Certificate:
        """For a client that Kubernetes knows as ``user`` of ``group``."""
        return self._sign(
            user.replace(":", "-"), _name(user, group), ExtendedKeyUsageOID.CLIENT_AUTH, extension=None
        )

    def service_account_keys(self) -> Certificate:
        """The pair by which tokens are signed; in place of a certificate there is a bare public key."""
        key = ec.generate_private_key(ec.SECP256R1())
        public = self._folder / "service-accounts.pub"
        public.write_bytes(
            key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
        return Certificate(public, self._write_key("service-accounts", key))

    def kubeconfig(self, server: str, user: str, group: str | None = None) -> Path:
        """A kubeconfig by which ``user`` talks to ``server`` (a URL)."""
        signed = self.client(user, group)
        return self._write_kubeconfig(
            user.replace(":", "-"),
            server,
            {"client-certificate": str(signed.certificate), "client-key": str(signed.key)},
        )

    def token_kubeconfig(self, server: str, name: str, token: str) -> Path:
        """A kubeconfig that shows a bearer token."""
        return self._write_kubeconfig(name, server, {"token": token})

    def _write_kubeconfig(self, name: str, server: str, user: dict[str, str]) -> Path:
        content: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "tests",
                    "cluster": {"server": server, "certificate-authority": str(self.own.certificate)},
                }
            ],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": name}}],
            "current-context": "tests",
        }
        path = self._folder / f"{name}.kubeconfig"
        path.write_text(yaml.safe_dump(content))
        path.chmod(0o600)
        return path

    def _sign(
        self,
        file_name: str,
        subject: x509.Name,
        purpose: x509.ObjectIdentifier,
        extension: x509.SubjectAlternativeName | None,
        valid: datetime.timedelta = datetime.timedelta(days=30),
    ) -> Certificate:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(subject, self._name, key.public_key())
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .not_valid_after(datetime.datetime.now(datetime.UTC) + valid)
        )
        if extension is not None:
            builder = builder.add_extension(extension, critical=False)
        return self._write(file_name, key, builder.sign(self._key, hashes.SHA256()))

    def _write(
        self, name: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate
    ) -> Certificate:
        path = self._folder / f"{name}.crt"
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return Certificate(path, self._write_key(name, key))

    def _write_key(self, name: str, key: ec.EllipticCurvePrivateKey) -> Path:
        path = self._folder / f"{name}.key"
        path.touch(0o600)
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )
        return path


def _name(user: str, group: str | None = None) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, user)]
    if group is not None:
        parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
    return x509.Name(parts)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_encipherment=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
