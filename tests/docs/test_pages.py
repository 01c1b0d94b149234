"""The documentation holds together: links resolve, each page is in one track, code names pages that exist."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.docs.project import ROOT, files_of_the_project

DOCS = ROOT / "docs"
TRACKS = ["Start", "Use", "Operate", "Understand", "Evidence"]
LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")
MENTION = re.compile(r"(?<![\w/.-])docs/[\w/.-]*\w")
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """The file and the anchor of each relative link; the anchor may be empty."""
    for match in LINK.finditer(CODE.sub("", page.read_text("utf-8"))):
        target, _, anchor = match["target"].partition("#")
        if not target.startswith(("http:", "https:")):
            yield (page.parent / target).resolve() if target else page, anchor


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the page's headings."""
    text = CODE.sub("", page.read_text("utf-8"))
    headings = re.findall(r"^#+ +(.*?) *$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_each_relative_link_leads_to_a_file_and_a_heading_that_exist() -> None:
    pages = [path for path in files_of_the_project() if path.suffix == ".md"]
    found = [(page, *link) for page in pages for link in links(page)]
    assert len(found) > 100
    broken = [
        f"{page.relative_to(ROOT)}: {target}#{anchor}"
        for page, target, anchor in found
        if not target.exists() or (anchor and anchor not in anchors(target))
    ]
    assert broken == []


def test_each_page_is_in_exactly_one_track() -> None:
    index = DOCS / "README.md"
    _, *sections = re.split(r"^## (.*)$", index.read_text("utf-8"), flags=re.MULTILINE)
    assert sections[::2] == TRACKS
    listed = Counter[Path]()
    for target, _ in links(index):
        listed.update(target.rglob("*.md") if target.is_dir() else [target])
    pages = {page.resolve() for page in DOCS.rglob("*.md")} - {index.resolve()}
    assert {str(page): count for page, count in listed.items() if count > 1} == {}
    assert {page for page in listed if page.is_relative_to(DOCS.resolve())} == pages


def test_the_track_evidence_is_the_folder_evidence() -> None:
    evidence = (DOCS / "README.md").read_text("utf-8").partition("## Evidence")[2]
    named = {match["target"] for match in LINK.finditer(evidence)}
    assert named == {f"evidence/{page.name}" for page in (DOCS / "evidence").glob("*.md")}


def test_code_manifests_and_charts_name_pages_that_exist() -> None:
    missing = []
    for path in files_of_the_project():
        if path.suffix in {".py", ".yaml", ".md", ".toml", ".txt", ".template"} or not path.suffix:
            for mention in MENTION.findall(path.read_text("utf-8", errors="replace")):
                name = mention.removesuffix(".")
                if not (ROOT / name).exists() and not list(ROOT.glob(f"{name}-*")):
                    missing.append(f"{path.relative_to(ROOT)}: {mention}")
    assert missing == []
