"""A task has a slot for each core that runs its Spark tasks, wherever that is."""

import pytest

from cooperator.connectors.microbatch.task import cores_of

HERE, REGISTERED = 2, 6


@pytest.mark.parametrize(
    ("conf", "cores"),
    [
        ({"spark.master": "local[4,8]"}, HERE),
        ({"spark.master": "spark://a:7077", "spark.cores.max": "5"}, 5),
        ({"spark.master": "spark://a:7077"}, REGISTERED),
        ({"spark.master": "k8s://a", "spark.executor.instances": "3", "spark.executor.cores": "2"}, 6),
        ({"spark.master": "k8s://a", "spark.executor.instances": "3"}, 3),
    ],
)
def test_cores_are_those_of_the_executors_where_there_are_any(conf: dict[str, str], cores: int) -> None:
    assert cores_of(conf, HERE, REGISTERED) == cores


def test_no_fewer_cores_than_here_while_executors_are_still_starting() -> None:
    assert cores_of({"spark.master": "spark://a:7077"}, HERE, 1) == HERE
