"""Permutations of faults leave every run, classes of faults never do: each long test names what stays."""

import pytest

from tests.long_list import PAGE, Source, page_with, rendered, sources, texts


@pytest.fixture(scope="module")
def found() -> dict[str, Source]:
    return sources(texts())


def problems(found: dict[str, Source]) -> list[str]:
    """Every mark that does not name a test of every run."""
    long = [(source, *each) for source in found.values() for each in source.long_tests()]
    wholly = {test.test for _, test, _ in long if test.whole}
    exist = {
        test
        for source in found.values()
        for test, (function, _) in source.functions.items()
        if function.name.startswith("test")
    }
    used = {id(call) for _, _, call in long}
    said = []
    for source in found.values():
        calls = list(source.calls())
        called = {id(call.func) for call in calls}
        said += [f"{source.name}:{m.lineno}: has no argument" for m in source.marks() if id(m) not in called]
        for call in calls:
            stays = source.argument(call)
            if stays is None:
                problem = "needs one argument, a literal or a constant of the module"
            elif stays not in exist:
                problem = f"names {stays}, which does not exist"
            elif stays in wholly:
                problem = f"names {stays}, which is long itself"
            elif id(call) not in used:
                problem = "marks no test"
            else:
                continue
            said.append(f"{source.name}:{call.lineno}: {problem}")
    return said


def test_each_mark_names_a_test_that_stays_in_every_run(found: dict[str, Source]) -> None:
    assert sum(len(list(source.calls())) for source in found.values()) > 50
    assert problems(found) == []


def test_the_page_lists_the_long_tests(found: dict[str, Source]) -> None:
    text = PAGE.read_text("utf-8")
    assert page_with(rendered(found), text) == text, "run: python -m tests.long_list"


SHORT = "def test_short(): ..."


def test_files_with_marks_and_those_that_marks_name_are_read() -> None:
    marked = '@pytest.mark.long("tests/b.py::test_it")\ndef test_long(): ...'
    of_tests = {"tests/a.py": marked, "tests/b.py": "def test_it(): ...", "tests/c.py": "def test_it(): ..."}
    assert [*sources(of_tests)] == ["tests/a.py", "tests/b.py"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('@pytest.mark.long("t.py::test_short")\ndef test_a(): ...', ""),
        ('STAYS: Final = "t.py::test_short"\n@pytest.mark.long(STAYS)\ndef test_a(): ...', ""),
        (
            'L = pytest.mark.long("t.py::test_short")\nROWS = [1, pytest.param(2, marks=L)]\n'
            '@pytest.mark.parametrize("a", ROWS)\ndef test_a(a): ...',
            "",
        ),
        (
            '@pytest.fixture(params=[1, pytest.param(2, marks=pytest.mark.long("t.py::test_short"))])\n'
            "def it(): ...\n@pytest.fixture\ndef of_it(it): ...\ndef test_a(of_it): ...",
            "",
        ),
        ("@pytest.mark.long\ndef test_a(): ...", "t.py:1: has no argument"),
        ("@pytest.mark.long()\ndef test_a(): ...", "needs one argument"),
        ('@pytest.mark.long(f"{a}")\ndef test_a(): ...', "needs one argument"),
        ('@pytest.mark.long(reason="t.py::test_short")\ndef test_a(): ...', "needs one argument"),
        ('@pytest.mark.long("t.py::test_gone")\ndef test_a(): ...', "which does not exist"),
        ('@pytest.mark.long("t.py")\ndef test_a(): ...', "which does not exist"),
        ('@pytest.mark.long("t.py::test_a")\ndef test_a(): ...', "which is long itself"),
        (
            'pytestmark = [pytest.mark.real, pytest.mark.long("t.py::test_short")]',
            "names t.py::test_short, which is long itself",
        ),
        (
            '@pytest.mark.long("t.py::test_short")\nclass TestA:\n    def test_a(self): ...\n'
            '@pytest.mark.long("t.py::TestA::test_a")\ndef test_b(): ...',
            "names t.py::TestA::test_a, which is long itself",
        ),
        ('L = pytest.mark.long("t.py::test_short")', "marks no test"),
    ],
)
def test_marks_are_read_as_pytest_applies_them(text: str, problem: str) -> None:
    said = problems({"t.py": Source.of("t.py", f"{text}\n{SHORT}\n")})
    if problem:
        [only] = said
        assert problem in only
    else:
        assert said == []
