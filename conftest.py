"""What holds for all tests: nothing of a run is left behind, however it ends. With ``--long``, tests that are
marked ``long`` run, too, and Hypothesis tries new examples.
"""

import pytest
from hypothesis import HealthCheck, settings

from tests.harness.runs import begin_run


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the long tests, too")


@pytest.hookimpl(trylast=True)  # once there is a terminal to write to
def pytest_configure(config: pytest.Config) -> None:
    # The duration of an example depends on the machine more than on the code. A run that decides about a
    # change repeats the same examples: it tells whether the change broke something. Long runs look for more
    # (``tests/harness/examples.py``).
    # Hypothesis has other defaults where the variable CI is set; these hold everywhere.
    settings.register_profile(
        "cooperator",
        settings.get_profile("default"),
        deadline=None,
        max_examples=100 if config.getoption("--long") else 40,
        suppress_health_check=[HealthCheck.too_slow],
        derandomize=not config.getoption("--long"),
    )
    settings.load_profile("cooperator")
    # At last, so that a wrong option ends pytest before anything is started.
    if cleaned := begin_run():
        config.get_terminal_writer().write(cleaned)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--long"):
        return
    long = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if not item.get_closest_marker("long")]
