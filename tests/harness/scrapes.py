"""Metrics of an endpoint, parsed by Prometheus' own parser."""

import urllib.request

from prometheus_client.parser import text_string_to_metric_families

Sample = tuple[str, tuple[str, ...]]


def scraped(url: str, without: str = "") -> dict[Sample, float]:
    """Maps (sample name, label values in the order of label names) to its value. ``url`` ends in a slash.

    ``without`` names a label to leave out.
    """
    with urllib.request.urlopen(f"{url}metrics", timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        return samples(answer.read().decode(), without)


def samples(text: str, without: str = "") -> dict[Sample, float]:
    """The same for a page that was read already."""
    return {
        (
            sample.name,
            tuple(value for label, value in sorted(sample.labels.items()) if label != without),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
