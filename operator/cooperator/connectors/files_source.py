"""The options of ``files-to-kafka``."""

from typing import Final, Literal, Self

from pydantic import model_validator

from cooperator.connectors.kafka_sink import KafkaSinkOptions
from cooperator.connectors.options import FullPath, TopicName, option, refuse
from cooperator.connectors.sql_rules import treats_rows_alone

MAX_BYTES: Final = 16 << 20
MAX_BYTES_STATE: Final = 4 << 20
"""The default for a SELECT with state, whose rows are collected."""


class BucketOptions(KafkaSinkOptions):
    """Options of connectors that read files in buckets and write to topics."""

    path: FullPath = option(
        "path", expected="a directory that every member sees", fixed=True, local_path=True
    )
    units: int = option("units", 8, expected="a number of file buckets, 1 to 1000", fixed=True, ge=1, le=1000)


class FilesToKafkaOptions(BucketOptions):
    topic: TopicName = option("topic", expected="the topic to write to", fixed=True)
    format: Literal["text", "wholetext"] = option(
        "format", "text", expected="text (one record per line) or wholetext (one per file)", fixed=True
    )
    glob: str = option("glob", "", expected="a pattern of file names, such as *.txt")
    recursive: bool = option("recursive", True, expected="true or false")
    trigger_interval_ms: int = option(
        "trigger.interval.ms",
        2_000,
        expected="milliseconds between two listings of the directory, 0 or more",
        ge=0,
    )
    max_files: int | None = option(
        "max.files.per.trigger", None, expected="the maximum number of files in a batch", ge=1
    )
    max_bytes: int | None = option(
        "max.bytes.per.trigger",
        None,
        expected=f"the maximum bytes of a unit per batch (default: {MAX_BYTES}, or {MAX_BYTES_STATE})",
        ge=1,
    )
    record_key: Literal["path", "none"] = option("record.key", "path", expected="path or none")
    record_value: Literal["json", "line"] = option(
        "record.value", "json", expected='json ({"path": …, "line": …}) or line (the text alone)'
    )
    partitions: int = option(
        "topic.partitions",
        4,
        expected="the number of partitions to create the topic with, 1 or more",
        instance_only=True,
        ge=1,
    )

    @model_validator(mode="after")
    def _one_limit(self) -> Self:
        if self.max_files is not None and self.max_bytes is not None:
            raise refuse(
                "cannot be combined with max.files.per.trigger", "use one of them", "max.bytes.per.trigger"
            )
        return self

    @property
    def has_state(self) -> bool:
        """Whether the SELECT may need rows of earlier batches."""
        return bool(self.transform_sql) and not treats_rows_alone(self.transform_sql)
