"""What every class of connectors must keep to, to be run by the author of a plug-in:

from cooperator.runtime.conformance import check

def test_it_conforms(tmp_path: Path) -> None:
    check(MyTrial(tmp_path))

``Trial`` tells the suite how to feed the source and how to look into the sink. The connector is found by its
entry point, checked as it is declared (``declared``), and then run by the runtime of a member in processes
that are stopped, killed and started again (``running``, ``life``).
"""

from cooperator.runtime.conformance.suite import RULES, NotConformant, check
from cooperator.runtime.conformance.trial import Trial

__all__ = ["RULES", "NotConformant", "Trial", "check"]
