"""Names from the cluster that complete a word. A failed request completes nothing and prints nothing."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer

from cooperator.model.visible import visible_line

Words = list[tuple[str, str]]
"""Words with their help."""


def workers(ctx: typer.Context, incomplete: str) -> Words:
    return _asked(ctx, incomplete, lambda: _named(ctx, "workers"))


def connectors(ctx: typer.Context, incomplete: str) -> Words:
    return _asked(ctx, incomplete, lambda: _named(ctx, "connectors"))


def tasks(ctx: typer.Context, incomplete: str) -> Words:
    return _asked(ctx, incomplete, lambda: _tasks(ctx))


def namespaces(ctx: typer.Context, incomplete: str) -> Words:
    return _asked(ctx, incomplete, lambda: _namespaces(ctx))


def contexts(ctx: typer.Context, incomplete: str) -> Words:
    def found() -> Iterator[tuple[str, str]]:
        from cooperator.controller.api.kubeconfig import contexts_of

        yield from ((name, "") for name in contexts_of(_path(ctx)))

    return _asked(ctx, incomplete, found)


def _asked(ctx: typer.Context, incomplete: str, names: Callable[[], Iterator[tuple[str, str]]]) -> Words:
    chosen = ctx.params.get("connectors") or ()
    try:
        return [
            # They reach a shell through typer, which escapes nothing.
            (visible_line(name), visible_line(help_))
            for name, help_ in names()
            if name.startswith(incomplete) and (name == incomplete or name not in chosen)
        ]
    except Exception:
        # A shell that waits for a completion must not print an error.
        return []


def _place(ctx: typer.Context) -> Any:
    from cooperator.controller.api.kubeconfig import connect

    return connect(ctx.params.get("namespace"), ctx.params.get("context"), _path(ctx))


def _path(ctx: typer.Context) -> Path | None:
    said = ctx.params.get("kubeconfig")
    return Path(said) if said else None


def _named(ctx: typer.Context, plural: str) -> Iterator[tuple[str, str]]:
    for body in _bodies(ctx, plural):
        status = body.get("status") or {}
        counts = status.get("taskSummary")
        yield body["metadata"]["name"], f"{counts} tasks run" if counts else ""


def _tasks(ctx: typer.Context) -> Iterator[tuple[str, str]]:
    for body in _bodies(ctx, "connectors"):
        name = body["spec"].get("connectorName") or body["metadata"]["name"]
        for entry in (body.get("status") or {}).get("taskStatuses") or ():
            yield (name if entry["id"] < 0 else f"{name}-{entry['id']}"), entry["state"]


def _bodies(ctx: typer.Context, plural: str) -> list[dict[str, Any]]:
    from cooperator.controller.api.client import CONNECTORS, WORKERS

    place = _place(ctx)
    items, _ = place.api.list(WORKERS if plural == "workers" else CONNECTORS, place.namespace)
    return list(items)


def _namespaces(ctx: typer.Context) -> Iterator[tuple[str, str]]:
    from cooperator.controller.api.client import NAMESPACES, WORKERS, ApiError

    api = _place(ctx).api
    try:
        items, _ = api.list(NAMESPACES, None)
        names = {item["metadata"]["name"] for item in items}
    except ApiError:
        # A user who may not list namespaces may still be allowed to list all Workers.
        items, _ = api.list(WORKERS, None)
        names = {item["metadata"]["namespace"] for item in items}
    yield from ((name, "") for name in sorted(names))
