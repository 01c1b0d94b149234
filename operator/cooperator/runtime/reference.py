"""``python -m cooperator.runtime.reference``: the built-in connectors' options, as the docs show them."""

import sys

from pydantic_core import PydanticUndefined

from cooperator.runtime.connectors.access import KafkaOptions
from cooperator.runtime.connectors.files_to_kafka import FilesToKafkaOptions
from cooperator.runtime.connectors.jdbc_to_kafka import JdbcToKafkaOptions
from cooperator.runtime.connectors.kafka_to_files import KafkaToFilesOptions
from cooperator.runtime.connectors.kafka_to_jdbc import KafkaToJdbcOptions
from cooperator.runtime.connectors.kafka_to_kafka import KafkaToKafkaOptions
from cooperator.runtime.connectors.pipeline import PipelineOptions
from cooperator.runtime.connectors.spark import SparkOptions
from cooperator.runtime.options import Options, option_names

CLASSES: dict[str, type[Options]] = {
    "files-to-kafka": FilesToKafkaOptions,
    "jdbc-to-kafka": JdbcToKafkaOptions,
    "kafka-to-files": KafkaToFilesOptions,
    "kafka-to-jdbc": KafkaToJdbcOptions,
    "kafka-to-kafka": KafkaToKafkaOptions,
    "spark": PipelineOptions,
}
_NOT_WRITTEN = {"connector.class", "name", "tasks.max", "task.units"}
_ACCESS = set(option_names(KafkaOptions)) - set(option_names(SparkOptions))
"""What all classes take that reach Kafka, shown once."""


def tables() -> str:
    """A Markdown table for each class: option, default, what to give, and whether it can change later."""
    parts = []
    titles: dict[str, tuple[type[Options], set[str]]] = {
        "The way into Kafka": (KafkaOptions, set(option_names(SparkOptions))),
        **{f"`{name}`": (options, _ACCESS | _NOT_WRITTEN) for name, options in CLASSES.items()},
    }
    for title, (options, left_out) in titles.items():
        rows = [f"### {title}", "", "| option | default | give | |", "|---|---|---|---|"]
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
