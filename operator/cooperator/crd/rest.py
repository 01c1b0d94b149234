"""Settings of Kafka Connect's REST API for a Worker."""

from pydantic import Field

from cooperator.crd.base import Model


class Rest(Model):
    """Kafka Connect's REST API in front of a Worker's group."""

    enabled: bool = Field(default=False, description="whether the API is served")
    port: int = Field(
        default=8083,
        ge=1,
        le=65_535,
        description="port of the Service NAME-rest on Kubernetes, or of 127.0.0.1 with `cooperator local`",
    )
