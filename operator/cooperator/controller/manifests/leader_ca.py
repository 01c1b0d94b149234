"""The CA of the leaders' certificate in the namespaces of members: a ConfigMap for each Worker. Pure.

It has public certificates only, as PEM for members on Spark and as a Java trust store for stock workers.
Members mount it, so a new CA reaches them without a restart.
"""

import base64
import hashlib
import re
import ssl
import struct
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from cooperator.controller.api.client import CONFIG_MAPS, Kind
from cooperator.controller.names import WORKER_LABEL
from cooperator.crd import Worker

Manifest = dict[str, Any]
_FOLDER: Final = PurePosixPath("/etc/cooperator/leader")
PEM: Final = _FOLDER / "ca.crt"
TRUST_STORE: Final = _FOLDER / "ca.jks"
_VOLUME: Final = "leader-ca"

_CERTIFICATE: Final = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_JKS_MAGIC: Final = 0xFEEDFEED
_JKS_VERSION: Final = 2
_TRUSTED_CERTIFICATE: Final = 2
_JKS_PASSWORD: Final = "changeit".encode("utf-16-be")
"""Java's customary password of a trust store, which protects nothing: readers may leave the check out."""
_JKS_SALT: Final = b"Mighty Aphrodite"


def config_map_name(worker: Worker) -> str:
    return f"{worker.metadata.name}-leader-ca"


def config_map(worker: Worker, ca_pem: bytes, owner: Mapping[str, Any]) -> tuple[Kind, Manifest]:
    return CONFIG_MAPS, {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": config_map_name(worker),
            "namespace": worker.metadata.namespace,
            "labels": {"app.kubernetes.io/managed-by": "cooperator", WORKER_LABEL: worker.metadata.name},
            "ownerReferences": [dict(owner)],
        },
        "data": {PEM.name: ca_pem.decode()},
        "binaryData": {TRUST_STORE.name: base64.b64encode(trust_store(ca_pem)).decode()},
    }


def volume(worker: Worker) -> Manifest:
    return {"name": _VOLUME, "configMap": {"name": config_map_name(worker)}}


def mount() -> Manifest:
    """The whole volume: the kubelet does not update single files (``subPath``)."""
    return {"name": _VOLUME, "mountPath": str(_FOLDER), "readOnly": True}


def trust_store(ca_pem: bytes) -> bytes:
    """The certificates as a Java key store (JKS), the only format that every Connect reads by default.

    Connect's client for its leader cannot read PEM, although Kafka's own clients can.
    """
    certificates = [ssl.PEM_cert_to_DER_cert(text) for text in _CERTIFICATE.findall(ca_pem.decode())]
    content = struct.pack(">III", _JKS_MAGIC, _JKS_VERSION, len(certificates))
    for number, certificate in enumerate(certificates):
        content += struct.pack(">I", _TRUSTED_CERTIFICATE) + _text(f"ca-{number}")
        # The time of creation; a constant, so that the same CA makes the same file.
        content += struct.pack(">Q", 0) + _text("X.509")
        content += struct.pack(">I", len(certificate)) + certificate
    # SHA-1 is part of the format, and only guards against accidents.
    return content + hashlib.sha1(_JKS_PASSWORD + _JKS_SALT + content, usedforsecurity=False).digest()


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()
