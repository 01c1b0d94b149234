"""Translates refusals of the API server to sentences with remedies. The texts are pure."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final

import typer

from cooperator.controller.api.client import ApiError, Kind
from cooperator.controller.api.kubeconfig import NoCluster
from cooperator.controller.names import GROUP
from cooperator.model.text import suggestion
from cooperator.terminal.console import Console

_FORBIDDEN: Final = re.compile(
    r'User "(?P<user>[^"]+)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" in API group '
    r'"(?P<group>[^"]*)"(?: in the namespace "(?P<namespace>[^"]+)"| at the cluster scope)?'
)


class CommandError(Exception):
    """The request cannot be carried out; the message gives the reason and the remedy."""


@contextmanager
def errors_said() -> Iterator[None]:
    """End the command with text and code 1 for failures that a user can fix."""
    try:
        yield
    except ApiError as error:
        Console().error(explained(error))
    except (NoCluster, CommandError) as error:
        Console().error(str(error))
    else:
        return
    raise typer.Exit(1)


def explained(error: ApiError) -> str:
    """A refusal as text for users."""
    text = str(error)
    if error.status == 0:
        return (
            f"{text}: check that the cluster is up and reachable, or use another one with --context or "
            "--kubeconfig"
        )
    if error.status == HTTPStatus.UNAUTHORIZED:
        return (
            "the API server does not accept your credentials (401): they are missing or expired; log in "
            "again, or use others with --context or --kubeconfig"
        )
    if error.status == HTTPStatus.FORBIDDEN:
        return _forbidden(text)
    if error.is_missing and GROUP in text and "not found" not in text:
        return (
            f"the cluster does not have the resources Worker and Connector (API group {GROUP}): install the "
            "definitions with `helm install cooperator-crds charts/cooperator-crds`, or "
            "`cooperator crds | kubectl apply --server-side -f -`"
        )
    return f"the API server refuses: {text}"


def _forbidden(text: str) -> str:
    found = _FORBIDDEN.search(text)
    if found is None:
        # This is not a missing right but, say, an admission policy.
        return f"the API server forbids it: {text}"
    where = f"namespace {found['namespace']}" if found["namespace"] else "the whole cluster"
    group = found["group"] or "core"
    role = "role" if found["namespace"] else "clusterrole"
    name, dot = found["resource"], "." if found["group"] else ""
    resource = f"{name.partition('/')[0]}{dot}{found['group']}"
    if "/" in name:
        resource += f"/{name.partition('/')[2]}"
    return (
        f"{found['user']} lacks a right: {found['verb']} on {name} (API group {group}) in {where}. "
        f"To grant it: kubectl create {role} NAME --verb={found['verb']} --resource={resource}"
        f"{' -n ' + found['namespace'] if found['namespace'] else ''}, and bind it to you"
    )


def no_such(kind: Kind, name: str, namespace: str, known: Sequence[str]) -> str:
    """The error text for a missing ``name``. ``known`` are the objects of its kind in that namespace."""
    what = kind.plural.removesuffix("s").capitalize()
    if not known:
        return (
            f"namespace {namespace} has no {what} {name!r} and no others: set the namespace with -n, or list "
            "all with `kubectl cooperator status -A`"
        )
    return f"namespace {namespace} has no {what} {name!r}: {suggestion(name, known)}"
