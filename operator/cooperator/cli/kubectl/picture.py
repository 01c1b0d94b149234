"""``kubectl cooperator picture``: tasks by time, coloured by member, as SVG; needs the extra ``pictures``."""

import time

from cooperator.cli.kubectl.errors import CommandError, errors_said
from cooperator.cli.kubectl.options import ContextOption, KubeconfigOption, NamespaceOption, WorkerArgument
from cooperator.cli.kubectl.seen import one
from cooperator.cli.kubectl.story import history_of
from cooperator.controller.api.client import WORKERS
from cooperator.controller.api.kubeconfig import connect
from cooperator.local.layout import ClusterError
from cooperator.local.picture import FileOption, MinutesOption, UntilOption, write_picture


def picture(
    worker: WorkerArgument,
    file: FileOption,
    minutes: MinutesOption = 60.0,
    until: UntilOption = None,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Draw which member ran which task when, with holds and failures, as far back as the logs reach.

    The Worker's topics are read from here.
    """
    with errors_said():
        place = connect(namespace, context, kubeconfig)
        history, missing = history_of(place, one(place, WORKERS, worker))
        if history is None:
            raise CommandError(f"{missing}: run this where Kafka is reachable, with its Secrets")
        try:
            write_picture(history, file, minutes, int(time.time() * 1000 if until is None else until * 1000))
        except ClusterError as error:
            raise CommandError(str(error)) from None
