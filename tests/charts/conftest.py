"""The chart of the operator, as a release that no cluster has."""

import pytest

from tests.charts.rendered import Release


@pytest.fixture(scope="session")
def release(helm: str) -> Release:
    return Release()
