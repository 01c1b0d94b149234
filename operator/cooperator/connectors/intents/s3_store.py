"""A directory in a store that speaks S3: logs by conditional requests, files by uploads that wait for their
end.

S3 has no rename. So a staged file is copied, inside the store, into an upload to its visible name, and the
request that completes the upload is the step that makes it visible. The store ends the upload with it, so a
second request finds none, also after the visible object was deleted.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from cooperator.connectors.intents.naming import unit_part
from cooperator.connectors.intents.s3_logs import S3Logs, errors
from cooperator.connectors.intents.stores import STAGED_ENDING, STAGING, WrittenFile
from cooperator.connectors.intents.values import StagedFile
from cooperator.connectors.microbatch.claims import Claim
from cooperator.connectors.microbatch.ranges import Partition
from cooperator.connectors.output import HIDDEN
from cooperator.connectors.places import StorePlace, remove_tree

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_VISIBLE: Final = re.compile(r"(.+\+\d+)\+\d{20}\.\d+-\d+-\d+-(\d+)-[0-9a-f]+(-\d+)?\.[^/]+\Z")


class S3Store(S3Logs):
    """A ``FileStore`` at a place ``s3a://bucket/path``; ``spark`` has the settings of S3A.

    A token is the upload with its parts. Errors of the store are ``OSError``.
    """

    def __init__(self, spark: "SparkSession", root: StorePlace) -> None:
        super().__init__(root)
        untyped: Any = spark
        self._root = str(root)
        self._below: StorePlace = root / HIDDEN
        conf = untyped._jsparkSession.sessionState().newHadoopConf()
        self._uploads: Any = untyped._jvm.dev.cooperator.spark.PendingUploads(self._root, conf)
        self._mine: dict[str, list[tuple[int, StagedFile]]] = {}
        """Uploads that this process has prepared in its present sessions, by unit."""

    def batch_directory(self, claim: Claim, name: str) -> str:
        return str(self._batch(claim, name))

    def outputs(self, claim: Claim, name: str) -> Sequence[WrittenFile]:
        place = self._batch(claim, name)
        with errors():
            entries = [entry for page in place.store.list(f"{place.key}/") for entry in page]
        found = [(entry["path"], int(entry["size"])) for entry in entries]
        return sorted(
            WrittenFile(path.removeprefix(f"{place.key}/"), size)
            for path, size in found
            if path.endswith(STAGED_ENDING)
        )

    def stage(self, unit: str, base: int, batch: tuple[Claim, str], path: str, name: str) -> StagedFile:
        with errors():
            token = str(self._uploads.prepare(f"{self._batch(*batch)}/{path}", f"{self._root}/{name}"))
        staged = StagedFile(name, token)
        self._mine.setdefault(unit, []).append((base, staged))
        return staged

    def publish(self, file: StagedFile) -> None:
        with errors():
            self._uploads.publish(file.token, f"{self._root}/{file.name}")

    def drop_batch(self, claim: Claim, name: str) -> None:
        with errors():
            remove_tree(self._batch(claim, name))

    def discard(self, bases: Mapping[str, int], replaced: Collection[Claim]) -> None:
        """The name of an upload's object has the base of its session."""
        of_name = {unit_part(Partition.of_unit(unit)): base for unit, base in bases.items()}
        with errors():
            found = [(str(key), str(id)) for key, id in self._uploads.list(self._root)]
            for key, id in found:
                match = _VISIBLE.match(key.rpartition("/")[2])
                if match and int(match[2]) < of_name.get(match[1], 0):
                    self._uploads.abort(key, id)
            for unit, base in bases.items():
                for older, file in self._mine.pop(unit, []):
                    if older < base:
                        self._uploads.abandon(file.token, f"{self._root}/{file.name}")
            for claim in replaced:
                remove_tree(self._below / STAGING / str(claim))

    def _batch(self, claim: Claim, name: str) -> StorePlace:
        return self._below / STAGING / str(claim) / name
