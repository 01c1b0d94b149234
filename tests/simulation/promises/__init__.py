"""The promises checked after every event, one class each. Only the promises in ``ALL`` are checked, in this
order: ``LeastMoves`` takes the rounds that others have looked at."""

from tests.simulation.promises.base import Broken, Promise
from tests.simulation.promises.consistent import Consistent
from tests.simulation.promises.deliberate import DeliberateEndsAccuseNobody
from tests.simulation.promises.durable import MemoryBeforeAssignments
from tests.simulation.promises.fits import EveryRoundFits
from tests.simulation.promises.forgotten import NothingForgotten
from tests.simulation.promises.given import RecordsBeforeAnswers
from tests.simulation.promises.learned import FewLearnAtATime, LearnersNeverWrite, NothingMovesCold
from tests.simulation.promises.moves import LeastMoves
from tests.simulation.promises.once import NoTaskRunsTwice
from tests.simulation.promises.stops import HangingStopsEnd
from tests.simulation.promises.untouched import UntouchedTasksRunOn
from tests.simulation.promises.warm import NothingIsTakenForTheCold

ALL: tuple[type[Promise], ...] = (
    NoTaskRunsTwice,
    UntouchedTasksRunOn,
    NothingForgotten,
    MemoryBeforeAssignments,
    RecordsBeforeAnswers,
    NothingIsTakenForTheCold,
    FewLearnAtATime,
    NothingMovesCold,
    LeastMoves,
    HangingStopsEnd,
    EveryRoundFits,
    LearnersNeverWrite,
    Consistent,
    DeliberateEndsAccuseNobody,
)

__all__ = ["ALL", "Broken", "Promise"]
