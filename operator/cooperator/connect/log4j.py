"""The logging of a stock worker, to its standard output. Pure.

Connect 4 logs with log4j 2, Connect 3 with reload4j, which reads log4j 1 configurations.
"""

from collections.abc import Mapping
from typing import Final

from cooperator.crd import Worker

LOG4J_1: Final = "log4j.properties"
LOG4J_2: Final = "log4j2.properties"
"""Names of the files; a JVM gets both and reads the one that it understands."""

_PATTERN: Final = "[%d] %p %X{connector.context}%m (%c:%L)%n"
_DEFAULTS: Final[Mapping[str, str]] = {
    "root": "INFO",
    # Prints the whole configuration of each client at every start, without passwords.
    "org.apache.kafka.common.config.AbstractConfig": "WARN",
    # Warns about each class that it cannot inspect.
    "org.reflections": "ERROR",
}


def logging_files(worker: Worker) -> Mapping[str, str]:
    """Return the text of each file, by name."""
    chosen = {name: level.value for name, level in worker.spec.stock.log_levels.items()}
    levels = {**_DEFAULTS, **chosen}
    root = levels.pop("root")
    return {LOG4J_1: _log4j_1(root, levels), LOG4J_2: _log4j_2(root, levels)}


def _log4j_1(root: str, levels: Mapping[str, str]) -> str:
    lines = [
        f"log4j.rootLogger={root}, out",
        "log4j.appender.out=org.apache.log4j.ConsoleAppender",
        "log4j.appender.out.layout=org.apache.log4j.PatternLayout",
        f"log4j.appender.out.layout.ConversionPattern={_PATTERN}",
        *(f"log4j.logger.{name}={level}" for name, level in sorted(levels.items())),
    ]
    return "".join(f"{line}\n" for line in lines)


def _log4j_2(root: str, levels: Mapping[str, str]) -> str:
    lines = [
        "status=error",
        "appender.out.type=Console",
        "appender.out.name=out",
        "appender.out.layout.type=PatternLayout",
        f"appender.out.layout.pattern={_PATTERN}",
        f"rootLogger.level={root}",
        "rootLogger.appenderRef.out.ref=out",
    ]
    for number, (name, level) in enumerate(sorted(levels.items())):
        lines += [f"logger.l{number}.name={name}", f"logger.l{number}.level={level}"]
    return "".join(f"{line}\n" for line in lines)
