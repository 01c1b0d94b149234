"""The part of the API about connectors: create, read, change, pause, restart, delete."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from cooperator.crd import Connector
from cooperator.crd.choices import DeletionPolicy
from cooperator.crd.connector import State
from cooperator.host.outputs import Claim, claim_of, newly_withheld, normal_for
from cooperator.model import without_reserved
from cooperator.model.text import choice
from cooperator.rest import translate
from cooperator.rest.answers import Answer, Call, RequestRefused, Right
from cooperator.rest.parts import Connectors, Group, Members
from cooperator.wire import RestartRecord

_LONGEST_TASK: Final = 9


class ConnectorAnswers:
    """Serves one Worker. All other parts look a connector up with ``known``."""

    def __init__(
        self, namespace: str, worker: str, connectors: Connectors, group: Group, members: Members
    ) -> None:
        self._namespace = namespace
        self._worker = worker
        self._connectors = connectors
        self._group = group
        self._members = members

    # --- looking up ---

    def known(self, name: str) -> Connector:
        """The Connector of this Worker. Raises RequestRefused 404, and 403 for one that is in the group but
        has no resource.

        The code is not 409, which clients take for a rebalance and retry: Strimzi for minutes, kcctl for 30
        s.
        """
        found = self._connectors.find(name)
        if found is not None:
            return found
        if name in self._adopted():
            raise RequestRefused(
                403,
                f"connector {name} is in the group's config topic without a Connector resource, so it can be "
                "read but not changed: create its manifest with `cooperator import` and apply it",
            )
        raise _unknown(name)

    def config_of(self, name: str) -> Mapping[str, str]:
        """The flat configuration, even of a connector that only the config topic has. Raises RequestRefused
        404."""
        found = self._connectors.find(name)
        if found is not None:
            return translate.flat(found)
        try:
            return self._adopted()[name]
        except KeyError:
            raise _unknown(name) from None

    def _adopted(self) -> Mapping[str, Mapping[str, str]]:
        """The config topic's connectors; none if those without a resource are about to be deleted."""
        if not self._group.adopts():
            return {}
        connectors = self._group.config().connectors
        return {name: without_reserved(connector.config) for name, connector in connectors.items()}

    def _info(self, name: str, config: Mapping[str, str]) -> dict[str, Any]:
        committed = self._group.config().connectors.get(name)
        tasks = 0 if committed is None else committed.task_count
        return translate.info(name, config, tasks, self._kind(config))

    def _kind(self, config: Mapping[str, str]) -> str:
        return self._members.type_of(config.get("connector.class", ""))

    def _status(self, name: str) -> dict[str, Any]:
        return translate.status(name, self._group.status(), self._kind(self.config_of(name)))

    # --- reading ---

    def connectors(self, call: Call) -> Answer:
        configs = dict(self._adopted())
        configs |= {c.connector_name: translate.flat(c) for c in self._connectors.all()}
        expand = set(call.query["expand"]) & {"info", "status"}
        if not expand:
            return Answer(200, sorted(configs))
        leader = self._group.status() if "status" in expand else {}
        found: dict[str, Any] = {}
        for name, config in sorted(configs.items()):
            found[name] = {}
            if "status" in expand:
                found[name]["status"] = translate.status(name, leader, self._kind(config))
            if "info" in expand:
                found[name]["info"] = self._info(name, config)
        return Answer(200, found)

    def connector(self, call: Call) -> Answer:
        return Answer(200, self._info(call.name, self.config_of(call.name)))

    def config(self, call: Call) -> Answer:
        return Answer(200, dict(self.config_of(call.name)))

    def status(self, call: Call) -> Answer:
        return Answer(200, self._status(call.name))

    def tasks(self, call: Call) -> Answer:
        self.config_of(call.name)
        configs = translate.task_configs(call.name, self._group.config())
        return Answer(
            200,
            [
                {"id": {"connector": call.name, "task": n}, "config": config}
                for n, config in enumerate(configs)
            ],
        )

    def tasks_config(self, call: Call) -> Answer:
        self.config_of(call.name)
        configs = translate.task_configs(call.name, self._group.config())
        return Answer(200, {f"{call.name}-{n}": config for n, config in enumerate(configs)})

    def task_status(self, call: Call) -> Answer:
        number = _number(call)
        for task in self._status(call.name)["tasks"]:
            if task["id"] == number:
                return Answer(200, task)
        raise RequestRefused(404, f"connector {call.name} has no task {number}")

    def topics(self, call: Call) -> Answer:
        """It exists because kcctl's ``describe connector`` fails without it."""
        self.config_of(call.name)
        return Answer(200, {call.name: {"topics": self._members.topics(call.name)}})

    def reset_topics(self, call: Call) -> Answer:
        self.config_of(call.name)
        raise RequestRefused(
            403, "the topics that a connector has used are tracked by its workers and cannot be reset here"
        )

    # --- making and changing ---

    def create(self, call: Call) -> Answer:
        body = call.body
        if not isinstance(body, dict) or not isinstance(body.get("name"), str) or not body["name"].strip():
            raise RequestRefused(400, 'the body has no name: send {"name": …, "config": {…}}')
        # Kafka's own server strips the name here (and not for PUT).
        name, state = body["name"].strip(), body.get("initial_state", "RUNNING")
        if not isinstance(state, str) or state not in translate.STATES:
            raise RequestRefused(
                400, f"initial_state is {str(state)[:40]!r}: {choice(str(state), translate.STATES)}"
            )
        config = _present(translate.settings(body.get("config"), "config"))
        return self._create(name, config, translate.STATES[state])

    def _create(self, name: str, config: Mapping[str, str], state: State) -> Answer:
        if wrong := self._members.wrong_name(name):
            raise RequestRefused(400, wrong)
        connector = translate.created(name, self._namespace, self._worker, config, state)
        if name in self._adopted() or any(name == each.connector_name for each in self._connectors.all()):
            raise RequestRefused(409, f"connector {name} already exists")
        there = self._connectors.resource(connector.metadata.name)
        if there is not None:
            raise RequestRefused(
                409,
                f"the name is taken by Connector {connector.metadata.name} of Worker "
                f"{there.spec.worker_ref.name} (in Kafka {there.connector_name!r}) in the same namespace: "
                "use another name, or apply a Connector with another metadata.name and with this name as "
                "spec.connectorName",
            )
        self._check(None, connector)
        self._connectors.create(connector)
        where = {"Location": f"/connectors/{quote(name, safe='')}"}
        return Answer(201, self._info(name, translate.flat(connector)), where)

    def put_config(self, call: Call) -> Answer:
        config = _present(translate.settings(call.body, "the body"))
        before = self._connectors.find(call.name)
        if before is None and call.name not in self._adopted():
            call.permit(Right("create"))
            return self._create(call.name, config, State.RUNNING)
        return self._change(before or self.known(call.name), config)

    def patch_config(self, call: Call) -> Answer:
        patch = translate.settings(call.body, "the body", nulls=True)
        before = self.known(call.name)
        return self._change(before, _present({**translate.flat(before), **patch}))

    def _change(self, before: Connector, config: Mapping[str, str]) -> Answer:
        after = translate.configured(before, config)
        if after != before:
            self._check(before, after)
            self._connectors.change(before, after)
        return Answer(200, self._info(before.connector_name, translate.flat(after)))

    def _check(self, before: Connector | None, connector: Connector) -> None:
        config = translate.flat(connector)
        try:
            found = self._members.validate(connector.spec.class_, config)
        except RequestRefused as refused:
            if refused.code in (404, 500):  # No member has the class; Kafka's own server says 500.
                raise RequestRefused(400, str(refused)) from None
            raise
        errors = [e for each in found["configs"] for e in each["value"].get("errors", ())]
        if found["error_count"]:
            raise RequestRefused(
                400, f"the configuration has {found['error_count']} errors: {'; '.join(errors)}"
            )
        name = connector.metadata.name
        others = [_claim(other) for other in self._connectors.all() if other.metadata.name != name]
        was = [] if before is None else [_claim(before)]
        for message in newly_withheld([*others, *was], [*others, _claim(connector)]).values():
            raise RequestRefused(400, message)

    def delete(self, call: Call) -> Answer:
        connector = self.known(call.name)
        if connector.spec.deletion_policy is DeletionPolicy.ORPHAN:
            raise RequestRefused(
                403,
                f"connector {call.name} would keep running, since Connector {connector.metadata.name} has "
                "spec.deletionPolicy: Orphan: set it to Delete first",
            )
        self._connectors.delete(connector)
        return Answer(204)

    # --- states and restarts ---

    def pause(self, call: Call) -> Answer:
        return self._to(call, State.PAUSED, 202)

    def resume(self, call: Call) -> Answer:
        return self._to(call, State.RUNNING, 202)

    def stop(self, call: Call) -> Answer:
        return self._to(call, State.STOPPED, 204)

    def _to(self, call: Call, state: State, code: int) -> Answer:
        before = self.known(call.name)
        if before.spec.state is not state:
            self._connectors.change(before, translate.in_state(before, state))
        return Answer(code)

    def restart(self, call: Call) -> Answer:
        """As in Kafka: without tasks it restarts the instance in any state, and answers without a body."""
        self.config_of(call.name)
        tasks, failed = call.query["includeTasks"], call.query["onlyFailed"]
        before = self._status(call.name)
        self._restart(RestartRecord(call.name, include_tasks=tasks, only_failed=failed))
        return Answer(202, translate.restarting(before, tasks, failed)) if tasks or failed else Answer(204)

    def restart_task(self, call: Call) -> Answer:
        number = _number(call)
        self.config_of(call.name)
        self._restart(RestartRecord(call.name, task=number))
        return Answer(204)

    def _restart(self, record: RestartRecord) -> None:
        code = self._group.restart(record)
        what = "connector" if record.task is None else f"task {record.task} of connector"
        if code == 404:
            raise RequestRefused(404, f"{what} {record.connector} is not configured yet")
        if code == 503:
            raise RequestRefused(
                503, f"the worker that has {what} {record.connector} does not answer: try again"
            )
        if code >= 300:
            raise RequestRefused(
                409, "the group has no leader at the moment, or its tasks are moving: try again"
            )


def _claim(connector: Connector) -> Claim:
    """The claim of a Connector among one Worker's, where equal directories differ at most in spelling."""
    return claim_of(connector, None, normal_for(None), (connector.metadata.creation_timestamp or "",))


def _number(call: Call) -> int:
    text = call.path["task"]
    if not (text.isascii() and text.isdigit()) or len(text) > _LONGEST_TASK:
        raise RequestRefused(404, f"{text[:40]!r} is not a task number")
    return int(text)


def _present(config: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in config.items() if value is not None}


def _unknown(name: str) -> RequestRefused:
    return RequestRefused(404, f"connector {name} not found")
