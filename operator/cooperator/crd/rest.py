"""Whether Kafka Connect's REST API is served for a Worker."""

from pydantic import Field

from cooperator.crd.base import Model


class Rest(Model):
    """Kafka Connect's REST API in front of a Worker's group."""

    enabled: bool = Field(default=False, description="whether it is served")
    port: int = Field(
        default=8083,
        ge=1,
        le=65_535,
        description="where: of the Service NAME-rest on Kubernetes, of 127.0.0.1 with `cooperator local`",
    )
