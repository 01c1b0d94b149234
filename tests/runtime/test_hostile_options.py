"""Options that are made to harm: each is refused or harmless, quickly; no exception leaves its Connector."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cooperator.connectors import anchor, delivery, find, outputs, validate
from cooperator.connectors.bounds import allowed_options, check_bounds, topics_in
from cooperator.connectors.options import OptionError, Options
from cooperator.connectors.patterns import check_pattern, compiled
from cooperator.connectors.references import Resolver, forbidden_files
from cooperator.connectors.units import fixed_changes
from cooperator.crd.overrides import override_problem
from cooperator.model.status import INVALID_OPTION
from cooperator.runtime.traces import lasting_reason
from tests.harness.examples import examples
from tests.harness.support import bounded_work

TO_FILES = {"topics": "lines", "path": "/out"}
BY_PATTERN = {"path": "/out"}

OF_AN_EARLIER_RELEASE = [
    ("kafka-to-files", {"path": "/out", "topics.regex": r"(?!b)[a-z]+"}),
    ("kafka-to-kafka", {"topic": "all", "topics.regex": r"(?!all)[a-z]+"}),
    (
        "kafka-to-postgres",
        {
            "topics.regex": r"(a)\1",
            "connection.url": "jdbc:postgresql://db/a",
            "connection.password": "${env:P}",
        },
    ),
    (
        "postgres-to-kafka",
        {
            "connection.url": "jdbc:postgresql://db/a",
            "mode": "incrementing",
            "topic": "rows",
            "tables.regex": r"public[.](?!old).*",
        },
    ),
]


def problems_of(**options: str) -> list[str]:
    """The problems of a kafka-to-files with these options, dots written as two underscores."""
    config = {name.replace("__", "."): value for name, value in options.items()}
    return [f"{p.problem}; {p.remedy}" for p in validate("kafka-to-files", {"path": "/out", **config})]


class TestLongValues:
    @pytest.mark.parametrize(
        "config",
        [
            {"topics": "!," * 200_000},
            {"topics": "a" * 400_000},
            {"topics": "a", "format": "json" * 100_000},
            {"topics": "a", "o" * 400_000: "a"},
            {"topics": "a", **{f"option{number}": "a" for number in range(30_000)}},
        ],
        ids=["bad elements", "one topic", "choice", "name", "names"],
    )
    def test_an_error_is_bounded_whatever_is_written(self, config: dict[str, str]) -> None:
        validate("kafka-to-files", TO_FILES)  # builds the class
        with bounded_work():
            problems = validate("kafka-to-files", {"path": "/out", **config})
        assert 1 <= len(problems) <= 20
        assert len({problem.option for problem in problems}) == len(problems)
        assert sum(len(str(problem)) for problem in problems) < 40_000
        assert len(str(problems[0])) < 4_000

    def test_a_long_value_with_a_reference_at_its_end_is_not_checked(self) -> None:
        assert validate("kafka-to-files", {"path": "/out", "topics": "!," * 500 + "${env:TOPICS}"}) == []

    def test_units_with_many_bad_paths_are_a_bounded_problem(self) -> None:
        units = json.dumps([{"source.options.path": f"/etc/{number}"} for number in range(2_000)])
        config = {"units": units}
        with pytest.raises(OptionError) as error:
            check_bounds(find("spark").options, config, config, Resolver({}))
        assert 1 <= len(error.value.problems) <= 20
        assert len(str(error.value)) < 20_000

    def test_deep_units_are_a_problem_of_the_option(self) -> None:
        for units in ("[" * 100_000, '{"a":' * 100_000):
            config = {"source.format": "json", "sink.format": "noop", "units": units}
            [problem] = validate("spark", config)
            assert (problem.option, problem.problem) == ("units", "is not valid JSON")
            check_bounds(find("spark").options, config, config, Resolver({}))
            assert topics_in(units)
            path = {"source.options.paths": units}
            check_bounds(find("spark").options, path, path, Resolver({}))


class TestPatterns:
    @pytest.mark.parametrize(
        "pattern",
        [
            "lines[",
            "(?=a)b",
            "(?!a)b",
            "(?<=a)b",
            r"(a)\1",
            "a{1001}",
            "(a{999}){999}",
            "a" * 1_001,
            "\ud800",
        ],
        ids=["open", "ahead", "not ahead", "behind", "back", "repeat", "repeats", "long", "surrogate"],
    )
    def test_a_pattern_that_needs_backtracking_is_refused_with_the_remedy(self, pattern: str) -> None:
        [problem] = problems_of(topics__regex=pattern)
        assert problem.startswith("is not a valid regular expression (")
        assert "write a regular expression of RE2 for complete names, such as orders[.].*" in problem

    def test_the_whole_name_counts_and_classes_are_of_ascii(self) -> None:
        assert compiled("orders|lines")("lines")
        assert not compiled("lines")("lines-2")
        assert compiled(r"a\d")("a1")
        assert not compiled(r"a\d")("a\u0661")

    def test_a_thousand_hostile_patterns_leave_others_their_turn(self) -> None:
        hostile = [f"(a|a)*{'(b|b)*' * (number % 7)}c{number}" for number in range(1_000)]
        for pattern in hostile:
            # A call holds the interpreter: no other thread waits for its turn longer than for one of them.
            with bounded_work(0.2):
                compiled(pattern)("a" * 249)

    @pytest.mark.parametrize(("name", "options"), OF_AN_EARLIER_RELEASE)
    def test_tasks_of_an_earlier_release_run_on_and_the_instance_says_what_is_wrong(
        self, name: str, options: dict[str, str]
    ) -> None:
        connector, config = find(name), {**options, "connector.class": name}
        task, resolver = (
            {**config, "task.units": "a-0"},
            Resolver({"P": "p"}, frozenset("P"), (), "kafka:9092"),
        )
        assert allowed_options(connector.options, task, resolver, running=True)[0].task_units == ("a-0",)
        with pytest.raises(OptionError, match="is not a valid regular expression") as error:
            allowed_options(connector.options, config, resolver)
        assert lasting_reason(error.value) == INVALID_OPTION
        assert delivery(name, config) is not None

    def test_its_directory_stays_its_own(self) -> None:
        name, options = OF_AN_EARLIER_RELEASE[0]
        [output] = outputs(name, options)
        written = {**options, "connector.class": name}
        [change] = fixed_changes(find(name), written, {**written, "topics.regex": "a", "path": "/other"})
        assert change.option == "path"
        assert outputs(name, TO_FILES) == (output,) == ("/out",), "a plain directory has one owner"

    @settings(max_examples=examples(100, long=300), deadline=None)
    @given(
        pattern=st.text("()[]{}|*+?^$.\\aA1,-:<>=!\ud800", max_size=200), name=st.text("aA1.-_", max_size=249)
    )
    def test_any_text_is_a_pattern_or_a_problem(self, pattern: str, name: str) -> None:
        try:
            check_pattern("topics.regex", pattern, "x")
        except ValueError:
            return
        assert compiled(pattern)(name) in (True, False)


class TestClasses:
    @pytest.fixture
    def broken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Every method of kafka-to-files that looks at options fails as hostile values make it."""
        connector = find("kafka-to-files")

        def fails(*_: object, **__: object) -> object:
            raise RecursionError("maximum recursion depth exceeded, secret included")

        monkeypatch.setattr(connector.options, "model_validate", fails)
        monkeypatch.setattr(connector.options, "anchored", fails)
        monkeypatch.setattr(type(connector), "delivery", fails)
        monkeypatch.setattr(type(connector), "outputs", fails)

    def test_an_exception_of_a_class_is_a_problem_of_its_connector(
        self, broken: None, tmp_path: object
    ) -> None:
        [problem] = validate("kafka-to-files", TO_FILES)
        assert "its class cannot check these options (RecursionError)" in str(problem)
        assert "secret" not in str(problem)
        assert delivery("kafka-to-files", TO_FILES) is None
        assert outputs("kafka-to-files", TO_FILES) == ()
        with pytest.raises(OptionError, match="cannot resolve paths"):
            anchor("kafka-to-files", TO_FILES, tmp_path)  # type: ignore[arg-type]

    @settings(max_examples=examples(40, long=100), deadline=None)
    @given(data=st.data())
    def test_any_values_of_any_built_in_class_are_options_or_problems(self, data: st.DataObject) -> None:
        name = data.draw(
            st.sampled_from(["files-to-kafka", "kafka-to-files", "kafka-to-kafka", "kafka-to-postgres"])
        )
        options: type[Options] = find(name).options
        names = sorted(field.alias or key for key, field in options.model_fields.items())
        values = st.text(max_size=50) | st.sampled_from(
            ["\ud800", "${env:A}", "${", "[" * 500, "{" * 500, "9" * 5_000]
        )
        config = data.draw(st.dictionaries(st.sampled_from(names), values, max_size=8))
        assert isinstance(validate(name, config), list)
        outputs(name, config)
        delivery(name, config)


@pytest.mark.parametrize("opening", ["${", "${worker.sasl.", "${cooperator-files:"])
def test_references_that_never_close_cost_linear_time(opening: str) -> None:
    """A search from each ``${`` to the end would hold the interpreter for minutes."""
    value = opening * (200_000 // len(opening))
    config = {"topics": value, "topic": "b", "errors.tolerance": value, "transform.sql": value}
    validate("kafka-to-kafka", {"topics": "a", "topic": "b", "transform.sql": "SELECT * FROM input"})
    with bounded_work():
        validate("kafka-to-kafka", config)
        delivery("kafka-to-kafka", config)
        outputs("kafka-to-kafka", config)
        assert forbidden_files(config, []) == []
        assert Resolver({}).resolve(config).config == config
        override_problem({"producer.override.acks": value})


def test_text_after_the_last_reference_stays() -> None:
    resolver = Resolver({"A": "x"}, allowed=frozenset({"A"}))
    assert resolver.resolve({"a": "${env:A}-${env:A} ${ $"}).config == {"a": "x-x ${ $"}


def test_a_class_that_cannot_say_what_it_opens_is_a_problem_of_its_connector() -> None:
    config = {"topics": "a", "connection.url": "\ud800"}
    with pytest.raises(OptionError, match=r"cannot say which paths it opens \(UnicodeEncodeError\)"):
        check_bounds(find("kafka-to-postgres").options, config, config, Resolver({}))
