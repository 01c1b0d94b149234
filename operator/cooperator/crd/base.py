"""What all resources share: the spelling of fields, names, metadata."""

from collections.abc import Mapping
from typing import Annotated, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from cooperator.crd.rules import DNS_SUBDOMAIN, dns_label

API_VERSION: Final = "cooperator.dev/v1alpha1"

E = TypeVar("E")

Lenient = Field(strict=False)
"""For enums: strict models accept only an enum's member, but manifests contain its text."""


class Model(BaseModel):
    """camelCase in manifests, snake_case in Python; unknown fields and wrong types are errors."""

    model_config = ConfigDict(
        alias_generator=to_camel, extra="forbid", frozen=True, strict=True, defer_build=True
    )


class ObjectMeta(Model):
    """The part of Kubernetes' metadata that manifests may have; what a server has added is kept."""

    name: Annotated[str, DNS_SUBDOMAIN] = Field(description="the resource's name")
    namespace: Annotated[str, dns_label()] = Field(default="default", description="the namespace it lives in")
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

    name: Annotated[str, DNS_SUBDOMAIN] = Field(description="the name of the resource meant")
