"""Problems of a manifest, with their remedies."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One problem: its place, and a message that names value and remedy.

    ``document`` counts from 1 within ``source`` and ``line`` within the file; both are 0 if unknown.
    ``resource`` is kind and name as far as the document has them. ``field`` is a dotted path, empty for the
    whole.
    """

    source: str
    message: str
    document: int = 0
    line: int = 0
    resource: str = ""
    field: str = ""

    def __str__(self) -> str:
        place = self.source
        if self.document:
            place += f", document {self.document}"
        if self.line:
            place += f", line {self.line}"
        if self.resource:
            place += f" ({self.resource})"
        return f"{place}: {self.message}"


class ResourceError(Exception):
    """A manifest was refused. ``problems`` has at least one entry; the text has one line for each."""

    def __init__(self, *problems: FieldProblem) -> None:
        super().__init__(*problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))
