"""Members that stop everything before they join (policy Eager): nothing runs twice, and all comes to rest."""

from cooperator.model import PolicyName
from tests.simulation.command import command_of
from tests.simulation.run import run

EAGER = PolicyName.EAGER


def test_every_promise_holds_in_histories_under_eager() -> None:
    stopped = 0
    for seed in range(12):
        outcome = run(seed, policy=EAGER)
        again = command_of(seed, policy=EAGER)
        assert outcome.broken is None, f"seed {seed}: {outcome.broken}\nreplay it: {again}"
        members = outcome.simulation.members
        stopped += sum("join with nothing" in line.what for m in members for line in m.story_lines())
    assert stopped > 20, "members stop before they join"
