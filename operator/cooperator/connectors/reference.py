"""``python -m cooperator.connectors.reference`` prints the built-in connectors' options for the docs."""

import sys

from pydantic_core import PydanticUndefined

from cooperator.connectors.access import KafkaOptions
from cooperator.connectors.files_source import FilesToKafkaOptions
from cooperator.connectors.files_target import KafkaToFilesOptions
from cooperator.connectors.kafka_to_kafka import KafkaToKafkaOptions
from cooperator.connectors.options import Options, option_names
from cooperator.connectors.pipeline_options import PipelineOptions
from cooperator.connectors.postgres_target import KafkaToPostgresOptions
from cooperator.connectors.spark import SparkOptions
from cooperator.connectors.tablelogs.options import TableToKafkaOptions

CLASSES: dict[str, type[Options]] = {
    "files-to-kafka": FilesToKafkaOptions,
    "postgres-to-kafka": TableToKafkaOptions,
    "kafka-to-files": KafkaToFilesOptions,
    "kafka-to-postgres": KafkaToPostgresOptions,
    "kafka-to-kafka": KafkaToKafkaOptions,
    "spark": PipelineOptions,
}
_NOT_WRITTEN = {"connector.class", "name", "tasks.max", "task.units"}
_ACCESS = set(option_names(KafkaOptions)) - set(option_names(SparkOptions))
"""The common options of all classes that access Kafka, shown once."""


def tables() -> str:
    """Returns a Markdown table for each class: option, default, valid values, and whether it is fixed."""
    parts = []
    titles: dict[str, tuple[type[Options], set[str]]] = {
        "Access to Kafka": (KafkaOptions, set(option_names(SparkOptions))),
        **{f"`{name}`": (options, _ACCESS | _NOT_WRITTEN) for name, options in CLASSES.items()},
    }
    for title, (options, left_out) in titles.items():
        rows = [f"### {title}", "", "| option | default | value | |", "|---|---|---|---|"]
        fixed = option_names(options, "fixed")
        for option, field in option_names(options).items():
            if option not in left_out:
                default = "required" if field.default is PydanticUndefined else _shown(field.default)
                expected = (field.description or "").replace("|", "\\|")
                rows.append(f"| `{option}` | {default} | {expected} | {'fixed' if option in fixed else ''} |")
        parts.append("\n".join(rows))
    return "\n\n".join(parts) + "\n"


def _shown(default: object) -> str:
    if default is None or default in ("", (), {}, ({},)):
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


if __name__ == "__main__":
    sys.stdout.write(tables())
