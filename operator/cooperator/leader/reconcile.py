"""The config log brought to what is desired: which records to write, in Kafka Connect's order."""

from collections.abc import Collection
from typing import Final

from cooperator.leader.regroup import TaskConfigs
from cooperator.model import ClusterConfig, Desired, TargetState, TaskId
from cooperator.wire import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    TargetStateRecord,
    TaskRecord,
)

ONE_TASK: Final = {"tasks.max": "1"}
"""What others need not write: a record for that alone would restart the connector."""


def connector_records(
    desired: Desired,
    config: ClusterConfig,
    owns_config: bool,
    with_tasks: bool = True,
    managed: Collection[str] = (),
) -> tuple[ConfigRecord, ...]:
    """The records that turn ``config`` into ``desired``; empty when nothing differs.

    Other writers (stock workers write target states) are overruled. Connectors that nobody desires are
    deleted only where the config log is ours (``owns_config``), or where they were desired once
    (``managed``). ``with_tasks``: a connector that changes is written with the tasks that it has.
    """
    records: list[ConfigRecord] = []
    for name, wanted in sorted(desired.connectors.items()):
        present = config.connectors.get(name)
        state = present.target if present is not None else TargetState.STARTED
        if wanted.target is not state:
            records.append(TargetStateRecord(name, wanted.target))
        if present is None or {**ONE_TASK, **present.config} != {**ONE_TASK, **wanted.config}:
            records.append(ConnectorRecord(name, wanted.config))
            if with_tasks and present is not None and present.tasks and not present.inconsistent:
                # Readers forget a commit that stands before its connector, as it would after a compaction.
                records += task_records(name, present.tasks)
    for name in sorted(config.connectors.keys() - desired.connectors.keys()):
        if owns_config or name in managed:
            records += [ConnectorRecord(name, None), TargetStateRecord(name, None)]
    return tuple(records)


def managed_connectors(
    desired: Desired | None, config: ClusterConfig, before: Collection[str]
) -> tuple[str, ...]:
    """Those that are, or were, desired, and are not deleted yet; ``before``: as it was."""
    wanted = desired.connectors.keys() if desired is not None else frozenset[str]()
    return tuple(sorted({*wanted, *(name for name in before if name in config.connectors)}))


def task_records(connector: str, configs: TaskConfigs) -> tuple[ConfigRecord, ...]:
    """All task configurations of a connector, then their commit (one transaction)."""
    tasks = [TaskRecord(TaskId(connector, number), config) for number, config in enumerate(configs)]
    return (*tasks, CommitRecord(connector, len(configs)))
