"""``cooperator executor``: Spark starts it in the pods that it makes from a member's image."""

import os
from importlib.util import find_spec
from pathlib import Path
from tempfile import gettempdir

import typer

from cooperator.artifacts import FILE_NAMES, JavaNotFound, find_java
from cooperator.model.extras import Extra, NotInstalled, require
from cooperator.runtime.executors import executor_command
from cooperator.runtime.user import UnknownUser, user_environment
from cooperator.terminal.console import Console


def executor() -> None:
    """Run an executor of a member whose spark.master is k8s://…. Spark starts it and configures it by
    variables."""
    try:
        require(Extra.SPARK, "an executor")
        spark = find_spec("pyspark")
        assert spark is not None
        assert spark.origin is not None
        home = Path(spark.origin).parent
        command = executor_command(os.environ, find_java(), home / "jars")
        user = user_environment(Path(gettempdir()), os.environ)
    except (JavaNotFound, NotInstalled, UnknownUser, ValueError) as error:
        Console().error(str(error))
        raise typer.Exit(2) from None
    # Replace this process, so that signals reach the executor itself.
    os.execve(command[0], command, {**os.environ, **user, **FILE_NAMES, "SPARK_HOME": str(home)})
