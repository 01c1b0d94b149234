"""``requirements.py EXTRA…``: what pyproject.toml beside it asks for, line by line, without the project.

An extra that pyproject.toml does not have adds nothing: a target names what it would use.
"""

import sys
import tomllib
from pathlib import Path

pyproject = tomllib.loads((Path(__file__).parent / "pyproject.toml").read_text())
extras = pyproject["project"].get("optional-dependencies", {})
wanted = [
    *pyproject["build-system"]["requires"],
    *pyproject["project"]["dependencies"],
    *(requirement for extra in sys.argv[1:] for requirement in extras.get(extra, ())),
]
sys.stdout.write("\n".join(dict.fromkeys(wanted)) + "\n")
