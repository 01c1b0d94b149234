"""The operator's chart as a release without a cluster."""

import pytest

from tests.charts.rendered import Release


@pytest.fixture(scope="session")
def release(helm: str) -> Release:
    return Release()
