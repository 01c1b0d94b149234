"""Texts that tests search for secrets, beside topics and statuses: members' pages, arguments, files."""

import json
import re
import urllib.request
from pathlib import Path

from tests.harness.support import eventually

_AT = re.compile(r"member \S+ of group \S+ at (http://\S+/)")


def pages(log: Path) -> dict[str, bytes]:
    """All pages of the member that writes this log: itself, its metrics, its tasks and the story of each.
    Names of connectors have no dash."""
    return eventually(lambda: _pages(log), 60, "the member answers, and has tasks")


def _pages(log: Path) -> dict[str, bytes]:
    url = _AT.findall(log.read_text())[-1]
    found = {path: read_page(url + path) for path in ("", "metrics", "tasks")}
    tasks = json.loads(found["tasks"])
    assert tasks, f"{url} has tasks"
    for task in tasks:
        connector, dash, number = task["task"].rpartition("-")
        path = f"tasks/{connector}/{number}/story" if dash else f"tasks/{number}/instance/story"
        found[path] = read_page(url + path)
    return {f"page {url}{path}": text for path, text in found.items()}


def read_page(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            content: bytes = answer.read()
            return content
    except OSError as error:
        raise AssertionError(f"{url}: {error}") from None  # The member has just been started.


def processes() -> dict[str, bytes]:
    """The arguments of every process of this machine, and those that JVMs write to /tmp.
    A process' environment is its owner's alone."""
    # JVMs write there whatever their temporary directory is.
    paths = [*Path("/proc").glob("[0-9]*/cmdline"), *Path("/tmp").glob("hsperfdata_*/*")]
    return {f"arguments {path}": _read(path) for path in paths}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""  # The process has ended.


def files(*folders: Path, except_below: str = "") -> dict[str, bytes]:
    found = {}
    for path in (path for folder in folders for path in folder.rglob("*")):
        if except_below not in path.parts and path.is_file():
            found[f"file {path}"] = _read(path)
    return found
