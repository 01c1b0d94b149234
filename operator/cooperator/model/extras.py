"""Optional dependencies: the packages that each extra brings, and the command that installs it."""

from collections.abc import Mapping
from enum import StrEnum
from importlib.util import find_spec
from types import MappingProxyType
from typing import Final


class Extra(StrEnum):
    """An extra of pyproject.toml with packages that the program imports."""

    SPARK = "spark"
    SPARK_CONNECT = "spark-connect"
    S3 = "s3"
    KUBERNETES = "kubernetes"
    OPENTELEMETRY = "opentelemetry"
    PICTURES = "pictures"

    @property
    def command(self) -> str:
        """Returns the command that installs it."""
        return f"pip install 'cooperator[{self}]'"


PACKAGES: Final[Mapping[Extra, tuple[str, ...]]] = MappingProxyType(
    {
        Extra.SPARK: ("pyspark", "py4j", "pyarrow", "fastavro", "psycopg", "setuptools"),
        Extra.SPARK_CONNECT: ("grpc", "grpc_status", "google.rpc", "pandas", "zstandard"),
        Extra.S3: ("obstore",),
        Extra.KUBERNETES: ("kopf", "kubernetes", "urllib3"),
        Extra.OPENTELEMETRY: ("opentelemetry.proto", "google.protobuf"),
        Extra.PICTURES: ("matplotlib",),
    }
)
"""What each extra brings, as it is imported."""


class NotInstalled(Exception):
    """Packages of an extra are missing; the text names them and the command that installs them."""


def require(extra: Extra, needed_by: str) -> None:
    """Raises ``NotInstalled`` unless all packages of ``extra`` are installed. Imports none of them.

    ``needed_by`` begins the error's text: the field and its value, or the command.
    """
    missing = [name for name in PACKAGES[extra] if not _is_installed(name)]
    if missing:
        raise NotInstalled(f"{needed_by} requires {', '.join(missing)}, not installed here: {extra.command}")


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False  # The package that contains it is missing.
