"""Options that several commands have, and the errors that all of them may end with."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from cooperator.artifacts import ArtifactError
from cooperator.crd import ResourceError
from cooperator.local.broker import BrokerError
from cooperator.local.cluster import ClusterError, read_cluster
from cooperator.local.console import Console
from cooperator.local.daemon import HostAway, HostFailed, HostRefused
from cooperator.local.layout import StateDir

DEFAULT_STATE: Final = Path(".cooperator")

StateOption = Annotated[
    Path,
    typer.Option(
        "--state-dir",
        envvar="COOPERATOR_STATE_DIR",
        help="Where everything is kept: manifests, broker, checkpoints, logs.",
        file_okay=False,
    ),
]
NamespaceOption = Annotated[str, typer.Option("--namespace", "-n", help="The resource's namespace.")]


@contextmanager
def errors_said(console: Console) -> Iterator[None]:
    """Failures that a user can do something about end the command with their text and code 1."""
    try:
        yield
    except HostFailed as error:
        console.error(f"the host daemon did not start: {error}")
    except HostAway:
        console.error("the host daemon does not answer: `cooperator local up` starts it")
    except (HostRefused, ClusterError, BrokerError, ArtifactError, ResourceError) as error:
        console.error(str(error))
    else:
        return
    raise typer.Exit(1)


def state_dir(path: Path) -> StateDir:
    return StateDir(path.absolute())


def existing_state(path: Path) -> StateDir:
    """The state directory; ClusterError when there is none."""
    state = state_dir(path)
    if read_cluster(state) is None:
        raise ClusterError(
            f"there is no state directory {path}: `cooperator local up` makes it, --state-dir names another"
        )
    return state
