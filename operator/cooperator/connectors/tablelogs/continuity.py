"""Whether rows that come later are behind the position of a table: whether its numbers have begun again."""

import json

from cooperator.connectors.options import OptionError, Problem
from cooperator.connectors.postgres_source import ORIGIN, SourceTable, offset_of


def check_position(
    table: SourceTable, position: str, greatest: int | None, drawn: int | None, option: str = "tables"
) -> str:
    """Raises ``OptionError`` if numbers have begun again since the position: their rows would be skipped.

    ``greatest`` is the greatest number of the table, ``drawn`` the last one of its sequences; None: there is
    none, or it is not known. ``option`` is the one that names the tables. Returns a doubt, for users: what
    the database cannot tell; empty: nothing.
    """
    # A position that a user has set has no origin: what it passes over is skipped on purpose.
    before, _, files_before = json.loads(position or "{}").get(ORIGIN, "").partition(".")
    if not before:
        return ""
    offset = offset_of(position)
    read = f"rows up to {json.dumps(offset)} were read"
    move = f"alter its offset: null to read it from its beginning, or {json.dumps(offset)} to go on there"
    names = ", ".join(each.name for each in table.sequences)
    now, _, files_now = table.origin.partition(".")
    if before != now:
        raise _unfollowed(option, table, f"was created again after {read}", move)
    if files_before and files_now and files_before != files_now:
        problem = f"gets numbers of sequence {names}, which was restarted or altered after {read}"
        raise _unfollowed(option, table, f"{problem}: rows with lower numbers would be skipped", move)
    if table.parts[0].name != "incrementing":
        return ""
    number = offset["incrementing"]
    if drawn is not None and drawn < number:
        problem = f"gets numbers of sequence {names}, which is at {drawn}, but {read}"
        remedy = f"run SELECT setval('{names}', {number}), or {move}"
        raise _unfollowed(option, table, f"{problem}: rows with lower numbers would be skipped", remedy)
    if drawn is not None or greatest is None or greatest >= number:
        return ""
    how = f"grant SELECT on sequence {names}" if names else "make its column an identity"
    return (
        f"table {table.name} ends with number {greatest}, but {read}; if its numbers began again, {move}; to "
        f"have this told from deleted rows, {how}"
    )


def _unfollowed(option: str, table: SourceTable, problem: str, remedy: str) -> OptionError:
    return OptionError([Problem(option, table.name, problem, remedy)])
