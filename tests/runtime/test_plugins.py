"""Plug-ins: the suite's findings, the errors for missing ones, and the example as a whole."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cooperator import connectors
from cooperator.connectors import anchor, find, known_classes, validate
from cooperator.connectors.conformance import RULES, NotConformant, check
from cooperator.connectors.options import OptionError
from cooperator.crd import Connector, parse
from tests.runtime.plugins.trial import CopiesTrial

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
EXAMPLE = ROOT / "examples" / "plugin"
PATIENCE_S = 20

Install = Callable[..., None]


@pytest.fixture
def visible(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], None]]:
    """Lets this process and its children import from a directory."""

    def seen(folder: Path) -> None:
        monkeypatch.syspath_prepend(str(folder))
        _forget()

    yield seen
    monkeypatch.undo()
    sys.modules.pop("copies_of_files", None)
    _forget()


@pytest.fixture
def install(tmp_path: Path, visible: Callable[[Path], None]) -> Install:
    """Installs a package that declares an entry point."""

    def installed(name: str, value: str, package: str = "copies") -> None:
        folder = tmp_path / f"site-{package}"
        metadata = folder / f"{package}-1.2.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
        (metadata / "entry_points.txt").write_text(f"[{connectors.GROUP}]\n{name} = {value}\n")
        shutil.copy(HERE / "plugins" / "polled.py", folder)
        text = (HERE / "plugins" / "copies.py").read_text()
        # A package of a user knows nothing of the tests.
        (folder / "copies_of_files.py").write_text(text.replace("tests.runtime.plugins.polled", "polled"))
        visible(folder)

    return installed


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, built and installed by pip into ``site``, a directory that is not on the path."""
    folder = tmp_path_factory.mktemp("example")
    source = folder / "copy"
    shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", str(folder / "site"), str(source)], check=True)
    return folder


def _forget() -> None:
    connectors._installed.cache_clear()
    connectors.find.cache_clear()


def test_a_plugin_that_keeps_the_rules_conforms_also_if_its_threads_never_end(
    install: Install, tmp_path: Path
) -> None:
    install("copies", "copies_of_files:LeavesThreads")
    check(CopiesTrial("copies", tmp_path / "trial"), patience_s=PATIENCE_S)


DEFECTS = [
    ("Unmakeable", "found", "cannot be loaded from copies 1.2 .*missing 1 required positional .*'journal'"),
    ("NoConnector", "found", "NoConnector. is not a subclass of Connector; fix or uninstall copies 1.2"),
    ("Remembers", "found", "its attributes have changed: {'asked': .*one instance serves all connectors"),
    ("WithoutName", "options", "field 'batch_size' has no name; declare it with option"),
    ("OpenSecret", "options", "option 'password' looks like a secret; declare it with secret=True"),
    ("RepeatsValues", "options", "option 'prefix': its error repeats the value"),
    ("TakesAnything", "accepts", "an unknown option is accepted; keep extra='forbid'"),
    ("TakesNegativePauses", "refuses", "{'pause.ms': '0'} is accepted; refuse it in a validator"),
    ("SaysNothing", "delivery", "the note of delivery.. is ''; write a sentence"),
    ("ForgetsUnits", "groups", "for 5 units and 2 tasks: put each unit into exactly one task"),
    (
        "UnitsByHash",
        "units",
        "one process returns .*, another .*; derive ids and their order from the",
    ),
    ("UnitsByPath", "units", "'/.*/in/ada' is not a valid id; use letters, digits, dot, underscore and dash"),
    ("CannotStart", "starts", r"RuntimeError: the folder is locked\nin unit (ada|bob)\b"),
    ("LosesRecords", "delivers", r"\d+ of 40 records are not in the sink after 20 s, such as 'record"),
    ("Unclaimed", "claims", "unit .* runs without a claim; subclass SparkConnector, or begin open"),
    ("NeverLooksAgain", "grows", "no new units within 20 s"),
    ("StopsInName", "stops", "was written after all tasks had stopped; return from stop.. only when no part"),
    ("OffsetsDrift", "offsets", "altering the listed offsets to themselves would change"),
    ("LocksItselfOut", "resumes", r"process \d+ has locked it"),
    (
        "BeginsAnew",
        "exact",
        "is in the sink 2 times, although delivery.. declares ExactlyOnce; make the write",
    ),
    (
        "WritesTwice",
        "exact",
        "is in the sink 2 times, although delivery.. declares ExactlyOnce; make the write",
    ),
    ("WritesLater", "survives", r"\d+ of \d+ records are not in the sink after 20 s"),
    ("KnowsNoEpochs", "fenced", "an attempt of an older epoch was allowed to run; pass the context's epoch"),
]


LONG = pytest.mark.long("tests/runtime/test_plugins.py::test_a_defect_breaks_its_rule_and_is_reported")
# Some defects show only when the timeout is over.
LATE = ("LosesRecords", "NeverLooksAgain", "WritesLater")
# Each breaks a rule that another defect breaks, too.
AGAIN = ("BeginsAnew",)


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("defect", "rule", "said"),
    [pytest.param(*each, id=each[0], marks=LONG if each[0] in (*LATE, *AGAIN) else ()) for each in DEFECTS],
)
def test_a_defect_breaks_its_rule_and_is_reported(
    install: Install, tmp_path: Path, defect: str, rule: str, said: str
) -> None:
    install("copies", f"copies_of_files:{defect}")
    with pytest.raises(NotConformant) as broken:
        check(CopiesTrial("copies", tmp_path / "trial"), patience_s=PATIENCE_S)
    assert broken.value.rules == (rule,), broken.value
    assert re.search(said, str(broken.value), re.DOTALL), broken.value


def test_every_rule_has_a_defect_and_is_in_the_docs() -> None:
    assert {rule for _, rule, _ in DEFECTS} == RULES.keys()
    docs = (ROOT / "docs" / "plugins.md").read_text()
    for rule, sentence in RULES.items():
        assert f"| `{rule}` | {sentence} |" in docs


def test_a_class_that_is_not_installed_is_refused_with_the_remedy() -> None:
    [problem] = validate("kafka-to-fils", {})
    assert str(problem) == (
        "option 'connector.class' = 'kafka-to-fils': is not an installed class; did you mean "
        "'kafka-to-files'? Otherwise install the plug-in that provides it, here and on every member of its "
        f"Worker (docs/plugins.md); installed are: {', '.join(known_classes())}"
    )


def test_options_of_a_plugin_are_checked_like_all_others(install: Install) -> None:
    install("copies", "copies_of_files:Copies")
    problems = validate("copies", {"path": "/in", "pause.ms": "0", "paht": "x"})
    assert [str(problem) for problem in problems] == [
        "option 'target': is required; use a directory to write to",
        "option 'pause.ms' = '0': should be greater than or equal to 1; use milliseconds between two looks, "
        "1 or more",
        "option 'paht' = 'x': is not an option of this class; did you mean 'path'?",
    ]


def test_a_package_that_cannot_be_imported_is_named(install: Install) -> None:
    install("copies", "copies_of_nothing:Copies")
    with pytest.raises(OptionError, match=r"cannot be loaded from copies 1.2 .*No module named 'copies_of_n"):
        find("copies")


def test_two_packages_that_bring_one_class_are_named(install: Install) -> None:
    install("copies", "copies_of_files:Copies")
    install("copies", "copies_of_files:WritesTwice", package="others")
    said = r"is provided by copies 1.2 \(copies_of_files:Copies\) and others 1.2 .*; uninstall all but one"
    with pytest.raises(OptionError, match=said):
        find("copies")


def test_the_manifest_of_the_example_is_accepted_and_its_options_are_checked(
    example: Path, visible: Callable[[Path], None]
) -> None:
    visible(example / "site")
    manifests = (EXAMPLE / "inboxes.yaml").read_text()
    [connector] = [one for one in parse(manifests, "inboxes.yaml") if isinstance(one, Connector)]
    config = anchor(connector.spec.class_, connector.spec.config, Path("/srv"))
    assert validate(connector.spec.class_, config) == []
    [problem] = validate(connector.spec.class_, {**config, "target": "/srv/inboxes/out"})
    assert str(problem) == (
        "option 'target' = '/srv/inboxes/out': is inside of path, and would be read again; "
        "name another directory"
    )


@pytest.mark.long(
    "tests/runtime/test_plugins.py::test_the_manifest_of_the_example_is_accepted_and_its_options_are_checked"
)
@pytest.mark.real
@pytest.mark.timeout(900)
def test_the_example_passes_its_own_tests_where_it_is_installed(example: Path) -> None:
    """Its author's way: pytest, without the sources."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    tests = example / "copy" / "tests"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--rootdir", str(tests), str(tests)],
        env={**ours, "PYTHONPATH": os.pathsep.join([str(ROOT / "operator"), str(example / "site")])},
        cwd=tests,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
