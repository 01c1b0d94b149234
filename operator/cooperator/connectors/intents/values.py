"""The values of a unit's log of intents, and their bytes. Pure.

A log is a sequence of intents with the numbers 1, 2, 3, and so on. The unit's position is the ``next`` of the
newest one. An intent with files is a cut of the topic: it says which staged files appear, under which names.
An intent without files begins a session, or moves the position.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from cooperator.connectors.microbatch.claims import Claim
from cooperator.model import Epoch

VERSION: Final = 1
_DIGITS: Final = 20
_NUMBER = re.compile(rf"([0-9]{{{_DIGITS}}})\.intent\Z")


class Session(NamedTuple):
    """A session of an attempt: a new one begins at its start, and after each failed batch.

    Sessions of one unit compare in the order in which they may own it.
    """

    claim: Claim
    number: int

    def __str__(self) -> str:
        return f"{self.claim}.{self.number}"

    @classmethod
    def parse(cls, text: str) -> "Session":
        """Returns the session of this name. Raises ValueError."""
        claim, _, number = text.rpartition(".")
        if not number.isdecimal():
            raise ValueError(f"{text!r} is no session; use CLAIM.NUMBER")
        return cls(Claim.parse(claim), int(number))


RELEASED: Final = Session(Claim(Epoch(0, 0), 0, "-"), 0)
"""The least session. An operation on offsets ends with it: all attempts that come are newer, also if epochs
have begun anew meanwhile, and those that run find a session that is older than theirs, and stop."""


class StagedFile(NamedTuple):
    """A file that is complete and not visible yet.

    ``name`` is the path at which it appears, relative to the directory. ``token`` is what the store consumes
    in the one step that makes it visible, so that this step succeeds once.
    """

    name: str
    token: str


class UnreadableIntent(ValueError):
    """An intent cannot be read; the message names the unit, its number and the remedy."""


@dataclass(frozen=True, slots=True)
class Intent:
    """One entry of a log. ``start`` and ``next`` are offsets; None: the unit has no position.

    The records from ``start`` up to, and without, ``next`` are in ``files``. ``topic_id`` is that of the
    source topic (empty: unknown). ``line`` names a line of offsets: it is the same until the position jumps.
    """

    session: Session
    start: int | None
    next: int | None
    topic_id: str = ""
    files: tuple[StagedFile, ...] = ()
    line: str = ""

    def encode(self) -> bytes:
        return json.dumps(
            {
                "version": VERSION,
                "session": str(self.session),
                "from": self.start,
                "to": self.next,
                "topic_id": self.topic_id,
                "files": [list(each) for each in self.files],
                "line": self.line,
            },
            separators=(",", ":"),
        ).encode()

    @classmethod
    def decode(cls, content: bytes, where: str) -> "Intent":
        """Returns the intent. Raises UnreadableIntent, which names ``where`` the bytes are from."""
        try:
            fields: Any = json.loads(content)
            if fields["version"] > VERSION:
                raise UnreadableIntent(
                    f"{where} has version {fields['version']}, and this release knows {VERSION}: use members "
                    "of the release that wrote it, or of a later one"
                )
            files = tuple(StagedFile(str(name), str(token)) for name, token in fields["files"])
            start, end = (None if each is None else int(each) for each in (fields["from"], fields["to"]))
            session, topic_id = Session.parse(fields["session"]), str(fields["topic_id"])
            return cls(session, start, end, topic_id, files, str(fields["line"]))
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, UnreadableIntent):
                raise
            raise UnreadableIntent(
                f"{where} is no intent ({error!r}): restore it from a backup, or stop the connector and "
                "reset or alter its offsets"
            ) from error


def file_of(number: int) -> str:
    """Returns the name of an intent's file; names sort as numbers do."""
    return f"{number:0{_DIGITS}}.intent"


def number_of(name: str) -> int | None:
    """Returns the number of an intent by its file's name; None: it is another file."""
    match = _NUMBER.match(name)
    return int(match[1]) if match else None
