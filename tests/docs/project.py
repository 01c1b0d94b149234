"""The files of the project, for tests that read all of them."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def files_of_the_project() -> list[Path]:
    """Every file that is tracked, or would be."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [path for line in listed.stdout.splitlines() if (path := ROOT / line).is_file()]
