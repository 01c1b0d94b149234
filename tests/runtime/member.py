"""A process that runs tasks until it is killed: ``python member.py SETTINGS`` (a JSON object).

Unlike a real member it gets its tasks as arguments; its runtime is the real one.
"""

import json
import logging
import sys
import threading
from pathlib import Path

from cooperator.model import Epoch, TaskId
from cooperator.runtime import RuntimeSettings, TaskSpec
from cooperator.runtime.spark import SparkRuntime

log = logging.getLogger("member")


class Logged:
    def started(self, task: TaskId, attempt: int) -> None:
        log.info("started %s", task)

    def paused(self, task: TaskId, attempt: int) -> None:
        log.info("paused %s", task)

    def stopped(self, task: TaskId, attempt: int) -> None:
        log.info("stopped %s", task)

    def failed(self, task: TaskId, attempt: int, trace: str, reason: str = "") -> None:
        log.error("failed %s: %s", task, trace)

    def progress(self, task: TaskId, attempt: int, text: str) -> None:
        log.info("%s: %s", task, text)

    def units_changed(self, connector: str, task_configs: list[dict[str, str]]) -> None:
        log.info("%s: %s", connector, task_configs)

    def warmed_up(self) -> None:
        log.info("warm")

    def warm_up_failed(self) -> None:
        log.error("not warm")


def main() -> None:
    arguments = json.loads(sys.argv[1])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    settings = RuntimeSettings(
        member="lake-0",
        incarnation=arguments["incarnation"],
        checkpoints=arguments["checkpoints"]
        if "://" in arguments["checkpoints"]
        else Path(arguments["checkpoints"]),
        state_dir=Path(arguments["state_dir"]),
        group_id=arguments["group_id"],
        bootstrap_servers=arguments["bootstrap_servers"],
        spark_conf=arguments.get("spark_conf", {}),
        heap_mb=arguments.get("heap_mb", 1024),
    )
    runtime = SparkRuntime(settings, Logged())
    epoch = Epoch(*arguments["epoch"]) if "epoch" in arguments else None
    for connector, number, config in arguments["tasks"]:
        runtime.start(TaskSpec(TaskId(connector, number), config, epoch=epoch), 1)
    threading.Event().wait()


if __name__ == "__main__":
    main()
