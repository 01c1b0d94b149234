"""The rules that every connector class must conform to, for authors of plug-ins:

    from cooperator.connectors.conformance import check

    def test_it_conforms(tmp_path: Path) -> None:
        check(MyTrial(tmp_path))

``Trial`` tells the suite how to feed the source and how to read the sink. The suite finds the connector by
its entry point, checks its declarations (``declared``), and then runs it in a member's runtime, in processes
that are stopped, killed and started again (``running``, ``process``).
"""

from cooperator.connectors.conformance.suite import RULES, NotConformant, check
from cooperator.connectors.conformance.trial import Trial

__all__ = ["RULES", "NotConformant", "Trial", "check"]
