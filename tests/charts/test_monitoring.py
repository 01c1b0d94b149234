"""Alerts and dashboard: every query is valid and uses existing metrics and labels."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import promql_parser as promql
import pytest

from cooperator.model import TaskState
from tests.charts.pages import Labels, of_a_member, of_the_operator
from tests.charts.rendered import EVERYTHING, OPERATOR, ROOT, Release

OF_TARGETS = frozenset({"job", "namespace", "pod"})
"""The labels that a Prometheus Operator adds to each target."""
OF_MEMBERS = OF_TARGETS | {"worker"}
"""The labels that the PodMonitor's relabeling adds."""
VARIABLES = {"$__rate_interval": "5m", "$namespace": ".*", "$worker": ".*", "$operator": ".*"}
DASHBOARD = OPERATOR / "dashboards" / "cooperator.json"
PLACE = re.compile(r"\{\{ ?\$labels\.(\w+) ?\}\}")
LEGEND = re.compile(r"\{\{(\w+)\}\}")


def known() -> Labels:
    return {
        "up": OF_TARGETS,
        **{name: labels | OF_MEMBERS for name, labels in of_a_member().items()},
        **{name: labels | OF_TARGETS for name, labels in of_the_operator().items()},
    }


def inside(query: promql.Expr, kind: Any) -> list[Any]:
    """All nodes of that type in a query."""
    found: list[Any] = []
    promql.walk(query, lambda part: found.append(part) if isinstance(part, kind) else None)
    return found


def checked(text: str) -> promql.Expr:
    """Parses a query and checks that its metrics and labels exist."""
    query = promql.parse(text)
    selectors = inside(query, promql.VectorSelector)
    assert selectors, text
    for selector in selectors:
        assert selector.name in known(), f"there is no metric {selector.name}"
        for matcher in selector.matchers.matchers:
            assert matcher.name in known()[selector.name], f"{selector.name} has no label {matcher.name}"
            if matcher.name == "state":
                assert matcher.value in set(TaskState)
    for aggregate in inside(query, promql.AggregateExpr):
        wanted = set(aggregate.modifier.labels if aggregate.modifier else ())
        for selector in inside(aggregate.expr, promql.VectorSelector):
            assert wanted <= known()[selector.name], f"{selector.name} lacks labels of {text}"
    return query


def left(query: promql.Expr) -> set[str]:
    """The labels of the query's result."""
    aggregates = inside(query, promql.AggregateExpr)
    if aggregates:
        return set(aggregates[0].modifier.labels if aggregates[0].modifier else ())
    return set.intersection(*(set(known()[each.name]) for each in inside(query, promql.VectorSelector)))


def rules(release: Release, **more: Any) -> list[Any]:
    values = {**EVERYTHING, "prometheusRule": {"enabled": True, **more}}
    [group] = release.one("PrometheusRule", values)["spec"]["groups"]
    return list(group["rules"])


def test_a_query_for_an_unknown_metric_is_noticed() -> None:
    for wrong, why in (
        ("cooperator_worker_leadin == 0", "no metric"),
        ('cooperator_worker_leading{member="a"}', "no label"),
        ("sum by (connector) (cooperator_worker_leading)", "lacks labels"),
    ):
        with pytest.raises(AssertionError, match=why):
            checked(wrong)
    with pytest.raises(ValueError, match="unclosed left parenthesis"):
        checked("sum by (cooperator_worker_leading")


# --- alerts ----------------------------------------------------------------------------------------------


def test_alerts_use_existing_metrics_and_have_remedies(release: Release) -> None:
    found = rules(release)
    assert len({rule["alert"] for rule in found}) == len(found) == 7
    for rule in found:
        query = checked(rule["expr"])
        assert re.fullmatch(r"\d+m", rule["for"])
        assert rule["labels"]["severity"] in ("critical", "warning")
        said = rule["annotations"]
        assert said.keys() == {"summary", "description"}
        named = {name for text in said.values() for name in PLACE.findall(text)}
        assert named <= left(query), f"{rule['alert']} uses labels that the result of its query lacks"
        # Each series is one alert; without its labels in the text alerts could not be told apart.
        assert rule["alert"] == "CooperatorOperatorAbsent" or named


def test_the_documentation_describes_each_alert(release: Release) -> None:
    documented = re.findall(
        r"^\| `(Cooperator\w+)` \|", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE
    )
    assert documented == [rule["alert"] for rule in rules(release)]


def test_thresholds_and_labels_can_be_configured(release: Release) -> None:
    found = {rule["alert"]: rule for rule in rules(release, lagRecords=25_000_000, rebalancesPerHour=7)}
    assert "> 25000000 and" in found["CooperatorLagGrows"]["expr"]
    assert found["CooperatorRebalancesKeepComing"]["expr"].endswith("> 7")
    documented = rules(release, alertLabels={"team": "lakes"})
    assert {rule["labels"]["team"] for rule in documented} == {"lakes"}
    assert {rule["labels"]["severity"] for rule in documented} == {"critical", "warning"}


def test_an_absent_operator_raises_an_alert_where_it_is_scraped(release: Release) -> None:
    other = Release(name="two", namespace="elsewhere")
    absent = {rule["alert"]: rule["expr"] for rule in rules(other)}["CooperatorOperatorAbsent"]
    # A Prometheus Operator names the job after the Service.
    service = other.one("Service")["metadata"]
    up = f'up{{job="{service["name"]}", namespace="{service["namespace"]}"}}'
    # Scraping fails, or is not configured. `absent` keeps only labels of equality matchers.
    assert absent == f"max by (job, namespace) ({up}) == 0 or absent({up})"
    values = {"prometheusRule": {"enabled": True}}
    [group] = other.one("PrometheusRule", values)["spec"]["groups"]
    assert "CooperatorOperatorAbsent" not in {rule["alert"] for rule in group["rules"]}


# --- dashboard -------------------------------------------------------------------------------------------


def panels(dashboard: Any) -> Iterator[Any]:
    for panel in dashboard["panels"]:
        yield panel
        yield from panel.get("panels", ())


def test_the_dashboard_is_in_a_config_map_that_grafana_finds(release: Release) -> None:
    wanted = {"enabled": True, "namespace": "grafana", "annotations": {"grafana_folder": "Kafka"}}
    metadata, data = (
        release.one("ConfigMap", {"grafanaDashboard": wanted})[key] for key in ("metadata", "data")
    )
    assert metadata["namespace"] == "grafana"
    assert metadata["labels"]["grafana_dashboard"] == "1"
    assert metadata["annotations"] == {"grafana_folder": "Kafka"}
    [(name, text)] = data.items()
    assert name.endswith(".json")
    assert json.loads(text) == json.loads(DASHBOARD.read_text())


def test_panels_have_distinct_ids_and_do_not_overlap() -> None:
    found = list(panels(json.loads(DASHBOARD.read_text())))
    assert len({panel["id"] for panel in found}) == len(found) > 15
    assert len({panel["title"] for panel in found}) == len(found)
    cells = Counter(
        (x, y)
        for panel in found
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    )
    assert set(cells.values()) == {1}
    assert max(x for x, _ in cells) < 24


def test_panels_use_existing_metrics() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    asked = set()
    for panel in panels(dashboard):
        assert (panel["type"] == "row") is not bool(panel.get("targets"))
        letters = [target["refId"] for target in panel.get("targets", ())]
        assert len(set(letters)) == len(letters)
        for target in panel.get("targets", ()):
            text = target["expr"]
            for name, value in VARIABLES.items():
                text = text.replace(name, value)
            query = checked(text)
            asked |= {each.name for each in inside(query, promql.VectorSelector)}
            assert set(LEGEND.findall(target["legendFormat"])) <= left(query), panel["title"]
    # The dashboard shows all metrics of an operator, and of tasks those on their progress.
    ours = {name for name in of_the_operator() if name.startswith("cooperator_")}
    shown_by_buckets = {
        name for name in ours if re.sub("_(sum|count|created)$", "_bucket", name) in asked - {name}
    }
    assert ours - asked - shown_by_buckets == {"cooperator_connector_state", "cooperator_worker_generation"}


def test_variables_come_from_metrics_and_are_used() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    variables = {each["name"]: each for each in dashboard["templating"]["list"]}
    assert {f"${name}" for name in variables} == {"$datasource", *VARIABLES} - {"$__rate_interval"}
    text = json.dumps(dashboard["panels"])
    for name, variable in variables.items():
        assert f"${name}" in text or f"${{{name}}}" in text
        if variable["type"] == "query":
            match = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
            assert match is not None
            selector = checked(match[1].replace("$namespace", ".*"))
            assert match[2] in left(selector)
