"""The state of the lead for those that do not run on its thread."""

from dataclasses import dataclass

from cooperator.model import Epoch


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of the lead that others may read without waiting for its thread.

    * ``epoch``: the members' epoch after the last delivered round; None during a round, and while not
      leading.
    * ``member_ids``: the members of that round whose end is not proven.
    * ``absent``: identities that departed before it, are still awaited, and whose end is not proven.
    * ``protocol``: their protocol.
    * ``stock``: whether there are stock workers among them.
    """

    epoch: Epoch | None = None
    member_ids: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    protocol: str = ""
    stock: bool = False
