"""Parts common to all resources: field names, object names and metadata."""

from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from cooperator.crd.rules import DNS_SUBDOMAIN, dns_label

API_VERSION: Final = "cooperator.dev/v1alpha1"

Lenient = Field(strict=False)
"""For enums: strict models accept only members of an enum, but manifests contain text."""


class Model(BaseModel):
    """camelCase in manifests, snake_case in Python; unknown fields and wrong types are errors."""

    model_config = ConfigDict(
        alias_generator=to_camel, extra="forbid", frozen=True, strict=True, defer_build=True
    )


class ObjectMeta(Model):
    """The part of Kubernetes' metadata that manifests may have; fields that a server has added are kept."""

    name: Annotated[str, DNS_SUBDOMAIN] = Field(description="the resource's name")
    namespace: Annotated[str, dns_label()] = Field(
        default="default", description="the namespace of the resource"
    )
    labels: Mapping[str, str] = Field(default_factory=dict, description="map of labels")
    annotations: Mapping[str, str] = Field(default_factory=dict, description="map of annotations")
    uid: str | None = Field(default=None, description="set by the server")
    generation: int | None = Field(
        default=None, description="set by the server; increases with each change of the spec"
    )
    resource_version: str | None = Field(default=None, description="set by the server")
    creation_timestamp: str | None = Field(default=None, description="set by the server")
    deletion_timestamp: str | None = Field(default=None, description="set by the server")


class Reference(Model):
    """A reference to another resource in the same namespace."""

    name: Annotated[str, DNS_SUBDOMAIN] = Field(description="the name of the resource")
