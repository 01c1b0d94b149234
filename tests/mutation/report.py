"""The table of what became of the mutants, as Markdown."""

from collections.abc import Iterator, Mapping, Sequence

from tests.mutation.mutants import PACKAGE, ROOMS, Mutant
from tests.mutation.verdicts import GROUPS, Progress

Results = Mapping[tuple[str, str], Progress]
Tests = Mapping[str, Mapping[str, Mapping[str, float]]]
"""The seconds of the tests that execute a mutant, by its digest and by group."""
VERDICTS = {
    "killed": "killed by a test that stayed",
    "only by left": "killed only by a test that left",
    "by left first": "killed by a test that left, before all that stayed ran",
    "survived": "survived both",
    "cut short": "killed by none of those that ran",
    "open": "not tried yet",
}


def verdict_of(mutant: Mutant, results: Results, tests: Tests) -> str:
    """Returns a key of ``VERDICTS``. A search that was cut short is no proof: it may be continued."""
    stayed, left = (results.get((mutant.digest, group), Progress()) for group in GROUPS)
    waits = {
        group: bool(progress.waiting(tests[mutant.digest][group], float("inf")))
        for group, progress in zip(GROUPS, (stayed, left), strict=True)
    }
    if stayed.killed_by is not None:
        return "killed"
    if left.killed_by is not None:
        return "by left first" if waits["stayed"] else "only by left"
    if not any(waits.values()):
        return "survived"
    return "cut short" if any((mutant.digest, group) in results for group in GROUPS) else "open"


def report(mutants: Sequence[Mutant], results: Results, tests: Tests) -> Iterator[str]:
    """Yields the lines of a table by room, and of one with the mutants that no test which stayed killed."""
    verdicts = {mutant: verdict_of(mutant, results, tests) for mutant in mutants}
    shown = [name for name in VERDICTS if name in {"killed", "only by left", "survived", *verdicts.values()}]
    yield f"| room | drawn | {' | '.join(VERDICTS[name] for name in shown)} |"
    yield f"|---|{'---:|' * (len(shown) + 1)}"
    for room in (*ROOMS, "all"):
        drawn = [mutant for mutant in mutants if room in ("all", mutant.room)]
        counts = [sum(verdicts[mutant] == name for mutant in drawn) for name in shown]
        yield f"| {room} | {len(drawn)} | {' | '.join(map(str, counts))} |"
    yield ""
    yield "| mutant | change | ran of those that stayed | ran of those that left | killed by |"
    yield "|---|---|---:|---:|---|"
    for mutant, verdict in verdicts.items():
        if verdict not in ("killed", "open"):
            ran = [_ran(mutant, group, results, tests) for group in GROUPS]
            left = results.get((mutant.digest, "left"), Progress())
            killer = f"`{left.killed_by}` ({left.why})" if left.killed_by else "none"
            change = f"{mutant.operator}: {_code(mutant.before)} → {_code(mutant.after)}"
            where = f"`{mutant.file.removeprefix(PACKAGE)}:{mutant.line}`"
            yield f"| {where} | {change} | {' | '.join(ran)} | {killer} |"
    dropped = {
        (test, reason) for progress in results.values() for test, reason in progress.not_counted.items()
    }
    if dropped:
        yield ""
        yield "Tests that were not counted, each for at least one mutant:"
        yield ""
        yield from (f"- `{test}`: {reason}" for test, reason in sorted(dropped))


def _ran(mutant: Mutant, group: str, results: Results, tests: Tests) -> str:
    progress, known = results.get((mutant.digest, group), Progress()), tests[mutant.digest][group]
    return f"{len(progress.passed & known.keys()) + (progress.killed_by is not None)} of {len(known)}"


def _code(text: str) -> str:
    """One line of a table: a vertical bar in it would end the cell."""
    line = " ".join(text.split()).replace("|", "\\|")
    return f"`{line if len(line) <= 80 else line[:77] + '...'}`"
