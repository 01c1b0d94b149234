"""Reconciles the config log with the desired state: which records to write, in Kafka Connect's order."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from cooperator.leader.regroup import TaskConfigs
from cooperator.model import ClusterConfig, ConnectorConfig, Desired, Memory, TargetState, TaskId
from cooperator.wire import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    TargetStateRecord,
    TaskRecord,
)

ONE_TASK: Final = MappingProxyType({"tasks.max": "1"})
"""Other writers may omit this default; a record for it alone would restart the connector."""


def connector_records(
    desired: Desired,
    config: ClusterConfig,
    owns_config: bool,
    with_tasks: bool = True,
    managed: Collection[str] = (),
    orphans: Collection[str] = (),
) -> tuple[ConfigRecord, ...]:
    """The records that turn ``config`` into ``desired``; empty when nothing differs.

    Other writers (stock workers write target states) are overruled. Connectors that are not desired are
    deleted only where the config log is ours (``owns_config``), or if they once were desired (``managed``),
    and never if they are ``orphans``. ``with_tasks``: a connector that changes is written with its existing
    tasks; without it, only one that returns to the configuration that those tasks were committed under.
    """
    records: list[ConfigRecord] = []
    for name, wanted in sorted(desired.connectors.items()):
        present = config.connectors.get(name)
        state = present.target if present is not None else TargetState.STARTED
        if wanted.target is not state:
            records.append(TargetStateRecord(name, wanted.target))
        if present is None or {**ONE_TASK, **present.config} != {**ONE_TASK, **wanted.config}:
            records.append(ConnectorRecord(name, wanted.config))
            if present is None or not present.tasks or present.inconsistent:
                continue
            # Readers drop a commit that precedes its connector, as it would after compaction. Stock workers
            # commit again, except where the configuration returns to the one that their tasks have.
            if with_tasks or present.applied == wanted.config:
                records += task_records(name, present.tasks)
        elif with_tasks and present.tasks and not present.inconsistent and _is_before(present):
            # Written while there were stock workers only, of which none is left to commit again.
            records += task_records(name, present.tasks)
    for name in sorted(config.connectors.keys() - desired.connectors.keys() - desired.kept):
        if desired.prune and name not in orphans and (owns_config or name in managed):
            records += [ConnectorRecord(name, None), TargetStateRecord(name, None)]
    return tuple(records)


def _is_before(connector: ConnectorConfig) -> bool:
    """Whether the commit of its tasks precedes its configuration in the log."""
    return connector.applied is not None and connector.applied != connector.config


def deleted_connectors(records: Iterable[ConfigRecord]) -> tuple[str, ...]:
    """The connectors that ``records`` delete."""
    return tuple(
        each.connector for each in records if isinstance(each, ConnectorRecord) and each.config is None
    )


def grouped(records: Iterable[ConfigRecord]) -> dict[str, tuple[ConfigRecord, ...]]:
    """Groups ``records`` by connector, in order; those without a connector are under an empty name."""
    found: dict[str, tuple[ConfigRecord, ...]] = {}
    for record in records:
        name = record.task.connector if isinstance(record, TaskRecord) else getattr(record, "connector", "")
        found[name] = (*found.get(name, ()), record)
    return found


def with_managed(memory: Memory, before: Memory, desired: Desired | None, config: ClusterConfig) -> Memory:
    """``memory`` with the connectors to delete, and those to keep, once they are no longer desired.

    Both are remembered from when they were last desired (``before``) until they are gone. The same object if
    nothing changes.
    """
    wanted = desired.connectors if desired is not None else {}
    said = {name: connector.orphan for name, connector in wanted.items()}
    if desired is not None:
        said = {**desired.ending, **said}
    managed, orphans = (
        {name for name, orphan in said.items() if orphan is as_orphan}
        | {name for name in names if name in config.connectors and name not in said}
        for names, as_orphan in ((before.managed, False), (before.orphans, True))
    )
    if (*sorted(managed), None, *sorted(orphans)) == (*memory.managed, None, *memory.orphans):
        return memory
    return replace(memory, managed=tuple(sorted(managed)), orphans=tuple(sorted(orphans)))


def remembers(saved: Memory | None, memory: Memory, owns_config: bool) -> bool:
    """Whether the leader log, with the memory ``saved``, already records what ``memory`` says.

    Compares only what is recorded of connectors that are no longer desired. In a config log that is ours, all
    connectors but orphans are managed.
    """
    saved = saved or Memory()
    return (owns_config or saved.managed == memory.managed) and saved.orphans == memory.orphans


def task_records(connector: str, configs: TaskConfigs) -> tuple[ConfigRecord, ...]:
    """All task configurations of a connector, then their commit (one transaction)."""
    tasks = [TaskRecord(TaskId(connector, number), config) for number, config in enumerate(configs)]
    return (*tasks, CommitRecord(connector, len(configs)))
