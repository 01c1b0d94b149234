"""Checks the rules for connector classes, for authors of plug-ins:

    from cooperator.connectors.conformance import check

    def test_it_conforms(tmp_path: Path) -> None:
        check(MyTrial(tmp_path))

``Trial`` defines how the suite feeds the source and reads the sink. The suite finds the connector by
its entry point, checks its declarations (``declared``), and then runs it in a member's runtime, in processes
that are stopped, killed and started again (``running``, ``process``).
"""

from cooperator.connectors.conformance.suite import RULES, NotConformant, check
from cooperator.connectors.conformance.trial import Trial

__all__ = ["RULES", "NotConformant", "Trial", "check"]
