"""When a unit's batch is tried in Spark's plan again, after it failed there for its rows. Pure values."""

from dataclasses import dataclass
from typing import Final

MOST: Final = 64
"""The maximum number of batches between two trials."""


@dataclass(frozen=True, slots=True)
class PlanTrial:
    """The state of one unit: ``wait`` batches are converted row by row before the next one is tried.

    ``step`` is the wait after the next failure. The first failure costs nothing but its batch, since it may
    be the only bad record for long; then waits double.
    """

    wait: int = 0
    step: int = 0

    @property
    def is_due(self) -> bool:
        """Whether the next batch is tried in the plan."""
        return self.wait == 0

    def failed(self) -> "PlanTrial":
        """Returns the state after a trial that failed; its batch was converted row by row."""
        return PlanTrial(self.step, min(MOST, max(1, 2 * self.step)))

    def succeeded(self) -> "PlanTrial":
        return PlanTrial(0, self.step // 2)

    def waited(self) -> "PlanTrial":
        """Returns the state after a batch that was converted row by row without a trial."""
        return PlanTrial(max(0, self.wait - 1), self.step)
