"""A shorter history that breaks the same promise: a part is left out only if it still does without it."""

from collections.abc import Callable

from tests.simulation.run import SAFETY_MS, Cuts, Outcome, run

Say = Callable[[str], None]


def shrink(outcome: Outcome, say: Say = lambda _: None) -> tuple[Cuts, Outcome]:
    """Leave out whole kinds of faults, then the end of the safety phase, then single faults."""
    assert outcome.broken is not None, "only what fails can be shrunk"
    promise = outcome.broken.promise
    cuts, best = Cuts(), outcome

    def attempt(shorter: Cuts) -> bool:
        nonlocal cuts, best
        tried = run(outcome.seed, shorter, policy=outcome.policy, reconciling=outcome.reconciling)
        if tried.broken is None or tried.broken.promise != promise:
            return False
        cuts, best = shorter, tried
        say(f"still fails with {len(tried.faults)} faults")
        return True

    for kind in sorted({fault.kind.__name__ for fault in outcome.faults}):
        attempt(Cuts(cuts.kinds | {kind}, cuts.faults, cuts.until_ms))
    last_ms = max((fault.at_ms for fault in best.faults), default=0)
    if last_ms < SAFETY_MS:
        attempt(Cuts(cuts.kinds, cuts.faults, last_ms))
    progress = True
    while progress:
        progress = False
        for fault in reversed(best.faults):
            progress |= attempt(Cuts(cuts.kinds, cuts.faults | {fault.index}, cuts.until_ms))
    return cuts, best
