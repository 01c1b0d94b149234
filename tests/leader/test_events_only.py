"""Only events change a leader's state; other writes are detected."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import cooperator
from cooperator.leader import events as ev
from cooperator.leader.invariants import BrokenInvariant
from cooperator.leader.machine import LeaderMachine
from cooperator.leader.state import LeaderSettings
from cooperator.model import Policy
from tests.harness.fake_group import running_group

ROOT = Path(next(iter(cooperator.__path__)))
PUBLIC = {name for name in vars(LeaderMachine) if not name.startswith("_")}
CHANGES = frozenset(
    {"append", "appendleft", "extend", "update", "pop", "popitem", "clear", "add", "insert"}
) | {
    *("remove", "discard", "setdefault", "note_births", "record", "rename", "mark_busy", "hear", "sort"),
    *("await_evicted", "still_away", "of_round"),
}


def chain(node: ast.AST) -> list[str]:
    """``a.b[c].d()`` as [a, b, d]."""
    if isinstance(node, ast.Attribute):
        return [*chain(node.value), node.attr]
    if isinstance(node, ast.Subscript | ast.Starred):
        return chain(node.value)
    if isinstance(node, ast.Call):
        return chain(node.func)
    return [node.id] if isinstance(node, ast.Name) else []


def after_machine(node: ast.AST, known: dict[str, list[str]]) -> list[str] | None:
    """The names of an expression that follow a leader's machine in it; None: it is not about one."""
    names = chain(node)
    if names[:1] and names[0] in known:
        names = [*known[names[0]], *names[1:]]
    return names[names.index("machine") + 1 :] if "machine" in names else None


def wrong(source: str) -> Iterator[str]:
    """Yields what a module does to a machine other than reading it and passing it events."""
    tree = ast.parse(source)
    known = {
        target.id: chain(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and "machine" in chain(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            if after_machine(node, known):
                yield f"{node.lineno}: writes {ast.unparse(node)}"
        elif isinstance(node, ast.Attribute) and (names := after_machine(node, known)):
            if names[0] not in PUBLIC:
                yield f"{node.lineno}: {ast.unparse(node)} is not for others"
            if len(names) > 1 and names[-1] in CHANGES:
                yield f"{node.lineno}: {ast.unparse(node)} changes it"


def shells() -> list[Path]:
    """All modules but the supervisor's, whose machine is another one."""
    return [path for path in sorted(ROOT.rglob("*.py")) if "machine" in path.read_text()]


def test_no_shell_changes_a_leaders_machine() -> None:
    found = {
        str(path.relative_to(ROOT)): lines for path in shells() if (lines := list(wrong(path.read_text())))
    }
    assert found == {}
    assert ROOT / "leader" / "leader_thread.py" in shells()


@pytest.mark.parametrize(
    "line",
    [
        "lead.machine.state.trouble = str(error)",
        "self.machine._in_round = True",
        "self.machine.saved(memory)",
        "lead.machine.write_window.wrote(1, 2)",
        "lead.machine.state.awaited.clear()",
        "lead.machine.state.awaited['x'] = 3",
        "state = machine.state\nstate.policy = policy",
        "state = self.machine.state\nstate.members[0].owned.append(x)",
        "del machine.state.plan",
        "machine.state.generation += 1",
    ],
)
def test_a_change_would_be_found(line: str) -> None:
    assert list(wrong(line))


@pytest.mark.parametrize("name", ["state", "settings", "forced_rounds", "wants_round"])
def test_its_attributes_cannot_be_written(name: str) -> None:
    machine = LeaderMachine(LeaderSettings("http://leader/"))
    with pytest.raises(AttributeError):
        setattr(machine, name, None)


def test_a_change_by_no_event_is_noticed_with_the_next_one() -> None:
    group = running_group()
    group.machine.state.trouble = "written by a shell"
    with pytest.raises(BrokenInvariant, match="something else than an event changed the state"):
        group.machine.validate()


def test_a_story_tells_how_the_state_came_about() -> None:
    group = running_group(members=1, task_count=1)
    group.policy(Policy(scheduled_rebalance_max_delay_ms=60_000))
    group.die("lake-0", proven=False)
    group.lose_lead("another leads")
    lines = [f"{line.cause.partition('#')[0]}: {line.what}" for line in group.machine.story()]
    assert lines[0] == "LeadTaken: leading: False -> True"
    assert "RoundReady: answer 2: 2 members, 1 assigned something" in lines
    assert "PolicyChanged: save the policy Default" in lines
    assert lines[-2:] == ["LeadLost: leading: True -> False", "LeadLost: members: 1 -> 0"]
    assert not any("Tick" in line and "rejoin" not in line and "request" not in line for line in lines)


def test_a_story_is_bounded() -> None:
    machine = LeaderMachine(LeaderSettings("http://leader/"))
    for number in range(5_000):
        machine.handle(ev.StepFailed(f"failure {number}"), number)
    assert len(machine.story()) == 2_000
    assert "failure 4999" in machine.story()[-1].what
