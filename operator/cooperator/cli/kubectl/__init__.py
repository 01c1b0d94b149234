"""``kubectl cooperator``: looking at Workers and Connectors of a cluster, and asking things of them.

What may live here: a command a file, what it reads of the API server, and what is shown of that as pure
functions (what was read, now) -> text. Nothing runs in the cluster for it: every command has the rights of
the person who calls it.
"""


def main() -> None:
    """The program ``kubectl-cooperator``, which kubectl calls for ``kubectl cooperator …``."""
    try:
        from cooperator.cli.kubectl.app import main as run
    except ModuleNotFoundError as error:
        if error.name not in ("kubernetes", "kopf"):
            raise
        raise SystemExit(
            "error: this needs a client of Kubernetes: pip install 'cooperator[kubernetes]'"
        ) from None
    run()


def complete() -> None:
    """The program ``kubectl_complete-cooperator``, which kubectl asks for the next word."""
    from cooperator.cli.kubectl.completion import answer_kubectl

    answer_kubectl()
