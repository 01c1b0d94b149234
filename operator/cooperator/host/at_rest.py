"""Whether anything of a connector can still run, according to the group's leader. Pure."""

from cooperator.crd import Connector
from cooperator.crd.connector import State
from cooperator.host.known import Leader, is_known
from cooperator.model import TargetState, TaskState


def why_not_at_rest(connector: Connector, leader: Leader) -> str:
    """Returns why offsets must not be changed now, as a sentence with the remedy; empty if nothing of it
    runs.

    A member that is out of contact is not seen here. It cannot write either: a change of offsets first
    revokes its claims on the units (``connectors.fence``).
    """
    name = connector.connector_name
    if connector.spec.state is not State.STOPPED:
        return (
            f"connector {name} is {connector.spec.state.value}, and offsets can be changed of a Stopped one "
            "only: set spec.state to Stopped and apply it"
        )
    wait = "wait until `get connectors` says STOPPED"
    if not leader.get("leading"):
        return f"the group has no leader to confirm whether any task of {name} runs: {wait}"
    if not is_known(leader):
        return f"the group's leader does not know yet whether any task of {name} runs: {wait}"
    known = leader["connectors"]
    if name not in known:
        return ""
    if known[name]["state"] != TargetState.STOPPED.value or known[name]["regrouping"]:
        return f"connector {name} is being stopped: {wait}"
    # Names of tasks and instances look alike: "a-1" may be the instance of another connector.
    others = set(known) - {name}
    for member in leader["members"]:
        for item in (*member["owned"], *member["stopping"]):
            head, _, number = item.rpartition("-")
            if head == name and number.isdigit() and item not in others:
                return f"member {member['identity']} still has task {item}: {wait}"
    for task in leader["tasks"]:
        if task["connector"] == name and task["state"] not in (
            TaskState.STOPPED.value,
            TaskState.UNASSIGNED.value,
        ):
            return f"{task['name']} is {task['state']}: {wait}"
    return ""
