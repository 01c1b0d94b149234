"""Python Data Sources that installed packages declare for the class ``spark``.

A Connector names them, as it names its class. It cannot name a module: importing one runs its code in the
member, and every module that is installed there would be at the choice of whoever may write a Connector.
"""

from importlib.metadata import entry_points
from typing import Any, Final

from cooperator.connectors.options import OptionError, Problem
from cooperator.model.text import did_you_mean, otherwise

GROUP: Final = "cooperator.data_sources"
_OPTION: Final = "data.sources"


def load(name: str) -> Any:
    """Returns the declared class of that name. Raises OptionError."""
    declared = entry_points(group=GROUP)
    found = {entry.value: entry for entry in declared if entry.name == name}
    if not found:
        hint = did_you_mean(name, sorted(declared.names))
        remedy = otherwise(hint, f"install a package with such an entry point of {GROUP} on every member")
        raise OptionError([Problem(_OPTION, name, "is declared by no installed package", remedy)])
    if len(found) > 1:
        problem = f"is declared more than once, as {' and '.join(sorted(found))}"
        raise OptionError([Problem(_OPTION, name, problem, "uninstall all of their packages but one")])
    [entry] = found.values()
    try:
        return entry.load()
    except Exception as error:
        problem = f"{entry.value} cannot be loaded: {type(error).__name__}: {error}"
        remedy = "fix or uninstall its package"
        raise OptionError([Problem(_OPTION, name, problem, remedy)]) from None
