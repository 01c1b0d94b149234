"""Results of Kafka's own assignor on the JVM, for the tests of planner and scenarios."""

import gzip
import json
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parents[1] / "planner" / "vectors"


def scenarios(name: str) -> list[dict[str, Any]]:
    """The scenarios of ``named`` or ``eager``."""
    with gzip.open(_HERE / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def lines(name: str) -> list[str]:
    """The same, as the lines of a file."""
    with gzip.open(_HERE / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        return list(file)
