"""The extras of cooperator that members of a Worker and its connectors need, by their settings."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from cooperator.connectors import outputs
from cooperator.connectors.places import is_in_store
from cooperator.connectors.server import SCHEME
from cooperator.model.extras import Extra, NotInstalled, require


class Need(NamedTuple):
    """``field`` with ``value`` needs ``extra``."""

    extra: Extra
    field: str
    value: str

    def check(self) -> None:
        """Raises ``NotInstalled``, which names field, value and remedy, unless it is installed here."""
        require(self.extra, f"{self.field} {self.value!r}")


def needs_of_members(conf: Mapping[str, str], checkpoints: str) -> Iterator[Need]:
    """Yields the needs of members with ``runtime: spark`` and this ``spec.spark.conf``."""
    yield Need(Extra.SPARK, "spec.runtime", "spark")
    master = conf.get("spark.master", "")
    if master.startswith(SCHEME):
        yield Need(Extra.SPARK_CONNECT, "spec.spark.conf[spark.master]", master)
    if is_in_store(checkpoints):
        yield Need(Extra.S3, "spec.checkpointLocation", checkpoints)


def needs_of_connector(class_name: str, config: Mapping[str, str]) -> Iterator[Need]:
    """Yields the needs of a connector that its Worker's members do not have anyway."""
    for directory in outputs(class_name, config):
        if is_in_store(directory):
            yield Need(Extra.S3, "spec.config", directory)


def not_installed(needs: Iterable[Need]) -> Iterator[tuple[Need, str]]:
    """Yields the needs that are not installed here, each with the text of the error."""
    for need in needs:
        try:
            need.check()
        except NotInstalled as error:
            yield need, str(error)
