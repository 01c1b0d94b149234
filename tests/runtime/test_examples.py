"""The configurations of the examples and the demo are valid as they are."""

from pathlib import Path

import pytest

from cooperator.connectors import validate
from cooperator.crd import Connector, parse
from cooperator.demo.job import manifests

FOLDER = Path(__file__).parents[2] / "examples"
RECIPES = [path for name in ("files", "s3", "secured") for path in (FOLDER / "recipes" / name).glob("*.yaml")]
EXAMPLES = sorted([*FOLDER.glob("*.yaml"), FOLDER / "quickstart" / "copies.yaml", *RECIPES])
DEMO = manifests(Path("/in"), files=100, lake=Path("/lake"), hold_ms=1_000)
TEXTS = {
    **{path.name: text for path in EXAMPLES if "kind: Connector" in (text := path.read_text())},
    "demo": DEMO,
}


@pytest.mark.parametrize("name", TEXTS)
def test_connectors_have_no_problem(name: str) -> None:
    connectors = [one for one in parse(TEXTS[name], name) if isinstance(one, Connector)]
    assert connectors
    for connector in connectors:
        assert validate(connector.spec.class_, connector.spec.config) == []
