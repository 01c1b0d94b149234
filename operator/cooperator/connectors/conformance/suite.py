"""Runs all rules, one after the other, and reports their findings."""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cooperator.connectors import find
from cooperator.connectors.conformance import declared, running
from cooperator.connectors.conformance.process import Place
from cooperator.connectors.conformance.running import Broken, Play
from cooperator.connectors.conformance.trial import Trial
from cooperator.connectors.options import OptionError

_FOUND = "The entry point leads to a class that can be created without arguments and keeps no state."

RULES: Final = {
    "found": _FOUND,
    **{name: " ".join((rule.__doc__ or "").split()) for name, rule in declared.RULES.items()},
    **running.RULES,
}
"""Maps each rule to a sentence, in the order in which they are checked."""


class NotConformant(AssertionError):
    """The class breaks rules: the message has a line for each complaint, with its rule."""

    def __init__(self, connector_class: str, complaints: Sequence[tuple[str, str]]) -> None:
        lines = [f"connector class {connector_class!r} does not conform:"]
        lines += [f"  {rule}: {complaint}" for rule, complaint in complaints]
        super().__init__("\n".join(lines))
        self.rules = tuple(dict.fromkeys(rule for rule, _ in complaints))


def check(trial: Trial, *, patience_s: float = 120, bootstrap_servers: str = "") -> None:
    """Checks the class of ``trial`` against all rules. Raises ``NotConformant``.

    Declarations are checked first; a class that breaks a rule there is not run. ``patience_s`` limits every
    wait. ``bootstrap_servers`` is the cluster of the Worker, as the class would find it.
    """
    name = trial.connector_class
    try:
        connector = find(name)
    except OptionError as error:
        raise NotConformant(name, [("found", str(error))]) from error
    complaints = [
        (rule, complaint) for rule, look in declared.RULES.items() for complaint in look(connector, trial)
    ]
    if complaints:
        raise NotConformant(name, complaints)
    directory = Path(tempfile.mkdtemp(prefix="cooperator-conformance-"))
    state = repr(vars(connector))
    try:
        place = Place(directory, directory.name, bootstrap_servers, patience_s)
        Play(connector, trial, place).perform()
    except Broken as broken:
        raise NotConformant(name, [(broken.rule, str(broken))]) from broken
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    if repr(vars(connector)) != state:
        remedy = "one instance serves all connectors of the class: keep all state in options and context"
        raise NotConformant(name, [("found", f"its attributes have changed: {vars(connector)}; {remedy}")])
