"""What all resources share: how fields are spelled, names, metadata."""

import re
from collections.abc import Mapping
from typing import Annotated, Final, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

API_VERSION: Final = "cooperator.dev/v1alpha1"

E = TypeVar("E")

Lenient = Field(strict=False)
"""For enums: strict models take an enum's member only, manifests have its text."""


class Model(BaseModel):
    """camelCase in manifests, snake_case in Python; unknown fields and wrong types are errors."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, strict=True)


_LABEL: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?\Z")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9](?:[-.a-z0-9]*[a-z0-9])?\Z")


def dns_label(name: str, limit: int = 63) -> str:
    """The name, when it is an RFC 1123 label of at most ``limit`` characters; else ValueError."""
    if len(name) > limit or not _LABEL.match(name):
        raise ValueError(
            f"use 1 to {limit} lower-case letters, digits and '-', a letter or digit at both ends "
            "(RFC 1123 label)"
        )
    return name


def dns_subdomain(name: str) -> str:
    """The name, when it is an RFC 1123 subdomain; else ValueError."""
    if len(name) > 253 or ".." in name or not _SUBDOMAIN.match(name):
        raise ValueError(
            "use 1 to 253 lower-case letters, digits, '-' and '.', a letter or digit at both ends "
            "(RFC 1123 subdomain)"
        )
    return name


class ObjectMeta(Model):
    """The part of Kubernetes' metadata that manifests may have; what a server has added is kept."""

    name: Annotated[str, AfterValidator(dns_subdomain)] = Field(description="the resource's name")
    namespace: Annotated[str, AfterValidator(dns_label)] = Field(
        default="default", description="the namespace it lives in"
    )
    labels: Mapping[str, str] = Field(default_factory=dict, description="labels, text to text")
    annotations: Mapping[str, str] = Field(default_factory=dict, description="annotations, text to text")
    uid: str | None = Field(default=None, description="set by the server")
    generation: int | None = Field(
        default=None, description="set by the server; grows with each change of spec"
    )
    resource_version: str | None = Field(default=None, description="set by the server")
    creation_timestamp: str | None = Field(default=None, description="set by the server")
    deletion_timestamp: str | None = Field(default=None, description="set by the server")


class Reference(Model):
    """Another resource in the same namespace."""

    name: Annotated[str, AfterValidator(dns_subdomain)] = Field(description="the name of the resource meant")
