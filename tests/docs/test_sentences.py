"""Sentences have subjects (docs/style.md): in code, names of tests, charts, resources and pages.

A clause such as "Who waits for the Lease is well" has none. The test looks for the words that make such a
clause where a sentence or clause begins. Questions may begin with them, as may headings and entries of
lists of things.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.docs.project import ROOT, files_of_the_project

THIS = Path(__file__).resolve()
STYLE = ROOT / "docs" / "style.md"
"""The page shows sentences of both kinds."""
SOURCES = (".py", ".md", ".yaml", ".yml", ".toml", ".tpl", ".txt", ".java", ".json")

HEADLESS = re.compile(
    r"(?:(?:who|what|which)(?:ever)?|whose|whom|how|why|(?:by|in|from|to) (?:which|what|whom))\b",
    re.IGNORECASE,
)
"""Words that begin no sentence but a question."""
SUBJECT = re.compile(r"(?:who|whoever|whom|what|whatever|whichever)\b", re.IGNORECASE)
"""Words that make a subject of a whole clause."""
VERB = re.compile(
    r"\b(?:is|are|was|were|has|have|had|does|do|did|may|must|can|cannot|could|will|would|should|needs?|stays?|goes|"
    r"runs|waits|comes|came|gets|keeps|holds|counts|ends|tells|says|asks|knows|happens|moves)\b",
    re.IGNORECASE,
)
HEADING = re.compile(r"^(?:#+ .*|\*\*(?!Who|Of)[^*]+\*\*)", re.MULTILINE)
"""Headings of pages and of paragraphs, which may be "Why a topic", as in other manuals."""
TEST_NAME = re.compile(
    r"test_(?:who|whoever|whose|whom|what|whatever|which|whichever|of|how|why|where)_"
    r"|test_(?:(?!_what_|_where_)\w)*?_(?:and|but)_(?:who|whoever|what|whatever)_"
)
"""Names that begin with a subject go on with what that does: "the_error_says_what_was_found"."""


def sentences(text: str) -> Iterator[str]:
    """Sentences of a text. A line that begins with a bullet, a list's number or a quotation begins one."""
    text = re.sub(r"^\s*(?:[-*+]|\d+\.|#+|>|\|)\s+", "\n\n", text, flags=re.MULTILINE)
    for part in re.split(r"(?<=[.!?])[\"')*_]*\s+(?=[\"'(*_`]*[A-Z])|\n\s*\n|\s\|\s", text):
        if sentence := " ".join(part.split()).strip("\"'(*_ "):
            yield sentence


def clauses(sentence: str) -> Iterator[str]:
    """Clauses of a sentence behind its first one."""
    yield from re.split(r"[;:]\s+|, (?:and|but|so) |\((?=w)", sentence)[1:]


def headless(text: str) -> list[str]:
    """The sentences and clauses of the text that have no subject."""
    found = []
    for sentence in sentences(text):
        if sentence.endswith("?") or " " not in sentence:
            continue
        if sentence[0].isupper() and (HEADLESS.match(sentence) or is_fragment(sentence)):
            found.append(sentence)
            continue
        parts = [*([sentence] if sentence[0].islower() else []), *clauses(sentence)]
        found += [part for part in parts if SUBJECT.match(part) and has_two_verbs(part)]
    return found


def is_fragment(sentence: str) -> bool:
    """Whether a sentence consists of words that follow "of"; "Of two, the newer one is kept" does not."""
    return sentence.startswith("Of ") and not VERB.search(sentence)


def has_two_verbs(clause: str) -> bool:
    """Whether the clause is a subject with a verb, as "what waits is shown", and not "what waits" alone."""
    first = re.split(r", | and | or | \(", clause)[0]
    return len(VERB.findall(first)) > 1 and not clause.endswith("?")


# --- texts -------------------------------------------------------------------------------------------------


_LITERAL = r"""[a-zA-Z]{0,2}(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
PYTHON = re.compile(
    r"(?P<comments>#.*(?:\n *#.*)*)"
    r'|[a-zA-Z]{0,2}"""(?P<long>(?:[^\\]|\\[\s\S])*?)"""'
    rf"|(?P<short>{_LITERAL}(?:\s+{_LITERAL})*)"
)
"""Comments in one block, docstrings and other long texts, and literals that follow each other."""


def texts_of_python(source: str) -> Iterator[tuple[int, str]]:
    """Docstrings, other texts with a space, and comments. (``ast`` takes ten times as long.)"""
    for found in PYTHON.finditer(source):
        line = source.count("\n", 0, found.start()) + 1
        if found["comments"]:
            yield line, re.sub(r"^ *#+[:!]? ?", "", found["comments"], flags=re.MULTILINE)
        elif found["long"]:
            yield line, found["long"]
        elif found["short"] and " " in found["short"]:
            text = re.sub(r"""["']\s+[a-zA-Z]{0,2}["']""", "", found["short"])
            text = re.sub(r"""^[a-zA-Z]{0,2}["']|["']$""", "", text)
            if text and text[0] not in " ,":
                yield line, re.sub(r"\{[^{}]*\}", "{}", text.replace("\\n", "\n"))


def texts_of_page(page: str) -> Iterator[tuple[int, str]]:
    """Paragraphs of a page in Markdown, without its examples."""
    page = re.sub(
        r"^( *)```.*?^\1```$", lambda code: "\n" * code[0].count("\n"), page, flags=re.MULTILINE | re.DOTALL
    )
    page = HEADING.sub("", page)
    line = 1
    for paragraph in re.split(r"(\n\s*\n)", page):
        if not paragraph.startswith("    "):
            yield line, re.sub(r"\]\([^)]*\)", "]", paragraph).replace("[", "").replace("]", "")
        line += paragraph.count("\n")


def texts_of_comments(source: str) -> Iterator[tuple[int, str]]:
    """Comments of YAML, TOML, templates and Java, and texts that alerts, dashboards and resources show."""
    block: list[str] = []
    for number, line in enumerate([*source.splitlines(), ""], 1):
        if found := re.match(r"\s*(?:#+|//|\*|/\*\*?)(?: |$)(.*)", line):
            block.append(found[1])
            continue
        yield number - len(block), "\n".join(block)
        block = []
        if shown := re.match(r'\s*"?(?:summary|description|title|help|message)"?: *(\S.*?),?$', line):
            yield number, re.sub(r"^[\"'{ ]*(?:printf )?[\"']?", "", shown[1])


def texts(path: Path) -> Iterator[tuple[int, str]]:
    source = path.read_text("utf-8")
    if path.suffix == ".py":
        return texts_of_python(source)
    if path.suffix == ".md":
        return texts_of_page(source)
    if path.parent.name == "crds":
        return ((0, text) for text in descriptions(yaml.safe_load_all(source)))
    return texts_of_comments(source)


def descriptions(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(text := node.get("description"), str):
            yield text
        node = node.values()
    if not isinstance(node, str | int | float | None):
        for value in node:  # type: ignore[attr-defined]
            yield from descriptions(value)


def files_with_sentences() -> list[Path]:
    return [p for p in files_of_the_project() if p.suffix in SOURCES and p not in (THIS, STYLE)]


def test_every_sentence_has_a_subject() -> None:
    found = []
    for path in files_with_sentences():
        for line, text in texts(path):
            found += [f"{path.relative_to(ROOT)}:{line}: {sentence}" for sentence in headless(text)]
    assert found == [], "\n".join(found)


def test_every_test_is_named_by_a_sentence_with_a_subject() -> None:
    found = []
    for path in files_with_sentences():
        if path.suffix == ".py":
            names = re.findall(r"^\s*(?:async )?def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
            found += [f"{path.relative_to(ROOT)}: {name}" for name in names if TEST_NAME.search(name)]
    assert found == [], "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "Who waits for the Lease is well.",
        "Returns the tasks. What has led to no round is no cause.",
        "a pod is replaced; what runs goes on",
        "what is not ours is not deleted",
        "Members leave, and who is away is awaited.",
        "Of members whose Worker names none.",
        "How often members show the broker that they live.",
        "| option | What nobody knows is left out |",
    ],
)
def test_a_sentence_without_a_subject_is_found(text: str) -> None:
    assert headless(text)


@pytest.mark.parametrize(
    "text",
    [
        "Standby replicas report healthy.",
        "What happens when the operator is away?",
        "The machine of a leader: what it knows, what it decides, and who is told.",
        "Returns what a member runs.",
        "Of two incarnations, only the newer one has work.",
    ],
)
def test_a_sentence_with_a_subject_passes(text: str) -> None:
    assert headless(text) == []
