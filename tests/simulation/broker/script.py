"""The notation of conversations: one step per line, with a client, its action and parameters.

a enters                    JoinGroup without an id, and again with the id from the answer
a joins                     JoinGroup with the present id, or without one
op joins as=leader          a static member; parameters stay, until ``as=`` or another value
a joins says=x offers=p,q   metadata and protocols, the preferred one first; ``x*300``: 300 times x
a joins session=2000 rebalance=3000
a syncs                     a leader gives every member of its round something; ``a=x b=y``: only this
a beats                     a heartbeat
a beats id=b gen=7          with another's or an unknown member id; of another generation
a leaves
x removes a b@op @op        LeaveGroup: a's id; b's id with an instance id; an instance id alone
a forgets                   it starts anew, without id and generation
a hangs up                  its connection ends, whatever waits on it
a/2 beats                   a's second connection
time passes                 until something is heard or seen of it
broker restarts
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Line:
    """``said`` are parameters with a value; ``words`` are those without."""

    connection: str
    verb: str
    words: tuple[str, ...] = ()
    said: dict[str, str] = field(default_factory=dict)

    @property
    def client(self) -> str:
        return self.connection.partition("/")[0]

    def __str__(self) -> str:
        return " ".join(
            [self.connection, self.verb, *self.words, *(f"{key}={said}" for key, said in self.said.items())]
        )


_VERBS = {"joins", "syncs", "beats", "leaves", "removes", "forgets", "hangs", "passes"}


def parse(script: str, stretch: int = 1) -> list[Line]:
    """``stretch`` multiplies time-outs. Raises ValueError for an unknown verb."""
    lines: list[Line] = []
    for text in script.splitlines():
        tokens = text.partition("#")[0].split()
        if not tokens:
            continue
        connection, verb, *rest = tokens
        pairs = [token.partition("=") for token in rest]
        words = tuple(word for word, equals, _ in pairs if not equals)
        said = {key: value for key, equals, value in pairs if equals}
        said |= {key: str(int(said[key]) * stretch) for key in ("session", "rebalance") if key in said}
        if verb == "enters":
            lines += [Line(connection, "joins", words, said), Line(connection, "joins")]
        elif verb in _VERBS:
            lines.append(Line(connection, verb, words, said))
        else:
            raise ValueError(f"{text.strip()!r}: there is no verb {verb!r}, only {', '.join(sorted(_VERBS))}")
    return lines


def text_of(said: str) -> bytes:
    text, times, count = said.partition("*")
    return text.encode() * (int(count) if times else 1)
