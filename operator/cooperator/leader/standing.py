"""The state of the lead for those that do not run on its thread."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cooperator.model import Epoch


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of the lead that others may read without waiting for its thread.

    * ``epoch``: the members' epoch after the last delivered round; None during a round, and while not
      leading.
    * ``members``: the members of that round whose end is not proven: their identities by member id.
    * ``absent``: identities that departed before it, are still awaited, and whose end is not proven.
    * ``margin_ms``: the margin of their leases.
    * ``protocol``: their protocol.
    * ``stock``: whether there are stock workers among them.
    """

    epoch: Epoch | None = None
    members: Mapping[str, str] = field(default_factory=dict)
    absent: tuple[str, ...] = ()
    margin_ms: int = 0
    protocol: str = ""
    stock: bool = False
