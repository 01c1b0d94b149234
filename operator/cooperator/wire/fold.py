"""The meaning of the config log, read in order: the rules of Kafka's KafkaConfigBackingStore.

A connector's configuration takes effect at once. Task configurations are deferred until their commit. A
commit whose set is incomplete (compaction removed a part) makes the connector inconsistent, until a commit
finds its whole set again. A commit of a connector that does not exist is dropped together with the
configurations it would commit.

There is one difference, which does not change any scheduling: Kafka passes a deleted connector's mark of
inconsistency on to a new connector of the same name.
"""

from collections.abc import Mapping
from dataclasses import replace

from cooperator.model import ClusterConfig, ConnectorConfig, SessionKey, TargetState, TaskFencing
from cooperator.wire.config import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    FencingRecord,
    SessionKeyRecord,
    TargetStateRecord,
    TaskRecord,
    decode_config,
)
from cooperator.wire.primitives import DecodeError
from cooperator.wire.records import Record, Unknown

_Config = Mapping[str, str]


class ConfigFold:
    """The mutable state of one reader of the config log; ``snapshot`` returns it as a value."""

    def __init__(self) -> None:
        self._offset = -1
        self._session_key: SessionKey | None = None
        self._former_key: SessionKey | None = None
        self._configs: dict[str, _Config] = {}
        self._targets: dict[str, TargetState] = {}
        self._deferred: dict[str, dict[int, _Config]] = {}
        self._committed: dict[str, tuple[_Config, ...]] = {}
        self._applied: dict[str, _Config] = {}
        self._inconsistent: set[str] = set()
        self._fencings: dict[str, TaskFencing] = {}
        self._connectors: dict[str, ConnectorConfig] = {}
        self._snapshot: ClusterConfig | None = ClusterConfig()

    def apply(self, record: Record, offset: int) -> ConfigRecord | Unknown:
        """Apply the record at ``offset`` and return what it says; restarts are left to the caller.

        Never raises: a record that cannot be understood is returned as Unknown and changes nothing. As in
        Connect, its offset counts even then, unless the value is not JSON; members compare these offsets.
        """
        try:
            decoded = decode_config(record)
        except DecodeError as error:
            return Unknown(record.key, str(error))
        self._offset = offset + 1
        self._snapshot = None
        match decoded:
            case ConnectorRecord(connector, None):
                self._remove(connector)
            case ConnectorRecord(connector, config) if config is not None:
                self._configs[connector] = config
                self._refresh(connector)
            case TaskRecord(task, config):
                self._deferred.setdefault(task.connector, {})[task.task] = config
            case CommitRecord(connector, task_count):
                self._commit(connector, task_count)
            case TargetStateRecord(connector, state):
                if state is None:
                    self._targets.pop(connector, None)
                else:
                    self._targets[connector] = state
                self._refresh(connector)
            case SessionKeyRecord(key):
                self._former_key, self._session_key = self._session_key, key
            case FencingRecord(connector, task_count):
                fencing = self._fencings.get(connector, TaskFencing())
                self._fencings[connector] = replace(fencing, recorded=task_count, pending=False)
        return decoded

    def snapshot(self) -> ClusterConfig:
        """The log as read so far. The same object until more is read."""
        if self._snapshot is None:
            self._snapshot = ClusterConfig(
                self._offset,
                dict(self._connectors),
                self._session_key,
                dict(self._fencings),
                self._former_key,
            )
        return self._snapshot

    def _commit(self, connector: str, task_count: int) -> None:
        if connector not in self._configs:
            self._remove(connector)
            return
        fencing = self._fencings.get(connector, TaskFencing())
        self._fencings[connector] = replace(fencing, generation=fencing.generation + 1, pending=True)
        deferred = self._deferred.pop(connector, {})
        # Compaction may also leave more tasks than the commit names; that set is complete, too.
        if len(deferred) >= task_count and all(task in deferred for task in range(task_count)):
            self._committed[connector] = tuple(deferred[task] for task in range(task_count))
            self._inconsistent.discard(connector)
            self._applied[connector] = self._configs[connector]
        else:
            self._committed.pop(connector, None)
            self._inconsistent.add(connector)
        self._refresh(connector)

    def _remove(self, connector: str) -> None:
        self._configs.pop(connector, None)
        self._deferred.pop(connector, None)
        self._committed.pop(connector, None)
        self._applied.pop(connector, None)
        self._inconsistent.discard(connector)
        self._connectors.pop(connector, None)

    def _refresh(self, connector: str) -> None:
        config = self._configs.get(connector)
        if config is not None:
            self._connectors[connector] = ConnectorConfig(
                config,
                self._targets.get(connector, TargetState.STARTED),
                self._committed.get(connector, ()),
                connector in self._inconsistent,
                self._applied.get(connector),
            )
