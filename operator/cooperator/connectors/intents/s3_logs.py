"""Logs of units in a store that speaks S3, by conditional requests."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from cooperator.connectors.intents.stores import IntentLogs
from cooperator.connectors.intents.values import Intent, StagedFile
from cooperator.connectors.output import HIDDEN
from cooperator.connectors.places import StorePlace


class S3Logs(IntentLogs):
    """The logs below a place ``s3a://bucket/path``. Errors of the store are ``OSError``."""

    def __init__(self, root: StorePlace) -> None:
        super().__init__(root / HIDDEN)

    def create(self, unit: str, number: int, intent: Intent) -> bool:
        with errors():
            return super().create(unit, number, intent)

    def read(self, unit: str, number: int) -> Intent | None:
        with errors():
            return super().read(unit, number)

    def numbers(self, unit: str) -> Sequence[int]:
        with errors():
            return super().numbers(unit)

    def remove(self, unit: str, numbers: Collection[int]) -> None:
        with errors():
            super().remove(unit, numbers)

    def units(self) -> Sequence[str]:
        with errors():
            return super().units()

    def publish(self, file: StagedFile) -> None:
        """Only the JVM can end an upload (see ``s3_store``)."""
        raise NotImplementedError("files in S3 are made visible by Spark's process")


@contextmanager
def errors() -> Iterator[None]:
    """Turns errors of the store's clients into ``OSError``."""
    from obstore.exceptions import BaseError

    try:
        yield
    except BaseError as error:
        raise OSError(f"the store refuses: {str(error).splitlines()[0][:300]}") from error
    except Exception as error:
        java = getattr(error, "java_exception", None)
        if java is None:
            raise
        raise OSError(f"the store refuses: {java}") from error
