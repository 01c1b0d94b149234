"""Common options of several commands, and the common errors of all."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from cooperator.local.daemon import HostAway, HostFailed, HostRefused
from cooperator.local.layout import ClusterError, StateDir, read_cluster, storage_error
from cooperator.terminal.console import Console

HOST_AWAY: Final = "the host daemon does not answer: `cooperator local up` starts it"
DEFAULT_STATE: Final = Path(".cooperator")

StateOption = Annotated[
    Path,
    typer.Option(
        "--state-dir",
        envvar="COOPERATOR_STATE_DIR",
        help="State directory: manifests, broker data, checkpoints and logs.",
        file_okay=False,
    ),
]
NamespaceOption = Annotated[str, typer.Option("--namespace", "-n", help="The resource's namespace.")]


@contextmanager
def errors_said(console: Console) -> Iterator[None]:
    """Ends the command with code 1 and the error's text for errors that users can fix."""
    try:
        yield
    except HostFailed as error:
        console.error(f"the host daemon did not start: {error}")
    except HostAway:
        console.error(HOST_AWAY)
    except (HostRefused, ClusterError) as error:
        console.error(str(error))
    except OSError as error:
        problem = storage_error(error)
        if problem is None:
            raise
        console.error(str(problem))
    except Exception as error:
        if not isinstance(error, _of_other_rooms()):
            raise
        console.error(str(error))
    else:
        return
    raise typer.Exit(1)


def _of_other_rooms() -> tuple[type[Exception], ...]:
    """Returns the users' errors of packages that most commands do not import."""
    from cooperator.artifacts import ArtifactError
    from cooperator.crd import ResourceError
    from cooperator.local.broker import BrokerError
    from cooperator.model.extras import NotInstalled

    return ArtifactError, BrokerError, NotInstalled, ResourceError


def state_dir(path: Path) -> StateDir:
    """Returns the files of a state directory; raises ``ClusterError`` for a path that Java cannot open."""
    try:
        str(path.absolute()).encode()
    except UnicodeEncodeError:
        raise ClusterError(
            f"--state-dir {str(path.absolute())!a} is not UTF-8, in which Java opens files: rename the "
            "directory, or use another one"
        ) from None
    return StateDir(path.absolute())


def existing_state(path: Path) -> StateDir:
    """Returns the state directory; raises ``ClusterError`` when there is none."""
    state = state_dir(path)
    if read_cluster(state) is None:
        raise ClusterError(
            f"there is no state directory {path}: `cooperator local up` makes it, --state-dir names another"
        )
    return state
