#!/usr/bin/env python3
"""``docs/reference.md``, generated from the models: ``python docs/reference.py``. A test compares."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from cooperator.crd.conditions import __doc__ as conditions_doc
from cooperator.crd.render import definitions

TARGET: Final = Path(__file__).with_suffix(".md")
INTRO: Final = """\
# Reference

Every field of the two resources. `python docs/reference.py` generates this page from the models that validate
them; `kubectl explain wrk.spec` shows the same. The custom resource definitions are in `crds/`, and
`cooperator crds` prints them. Times are in milliseconds unless a name says otherwise. Fields in bold are
required.
"""
REFUSED: Final = """\
The API server and `cooperator local` refuse these at once, in addition to wrong types, choices and ranges.
Problems that only the operator can detect (options of a class, the syntax of labels) set the condition
`Stalled` with the reason `InvalidSpec`; the previous spec stays in force.
"""

Schema = Mapping[str, Any]


def reference() -> str:
    """The text of the page."""
    parts = [INTRO]
    for crd in sorted(definitions().values(), key=lambda crd: crd["spec"]["names"]["kind"], reverse=True):
        parts += _resource(crd)
    parts += ["## Conditions\n", _paragraphs(conditions_doc or "")]
    return "\n".join(parts)


def _resource(crd: Schema) -> Iterator[str]:
    names, version = crd["spec"]["names"], crd["spec"]["versions"][0]
    root = version["schema"]["openAPIV3Schema"]
    yield f"## {names['kind']}\n"
    yield (
        f"{root['description']} `apiVersion: {crd['spec']['group']}/{version['name']}`; kubectl knows it as "
        f"`{names['plural']}`, `{names['shortNames'][0]}`, and both kinds as `{names['categories'][0]}`.\n"
    )
    for part in ("spec", "status"):
        yield f"### {names['kind']}: {part}\n"
        header = ("Field", "Type", "Default", "Meaning") if part == "spec" else ("Field", "Type", "Meaning")
        yield _row(header)
        yield _row(["---"] * len(header))
        for path, node, is_required in _fields(root["properties"][part]):
            name = f"**`{path}`**" if is_required and part == "spec" else f"`{path}`"
            default = (_default(node),) if part == "spec" else ()
            yield _row((name, _type(node), *default, node.get("description", "")))
        yield ""
    yield f"### {names['kind']}: what is refused\n"
    yield REFUSED
    yield from dict.fromkeys(f"* {_where(path)}{message}" for path, message in _rules(root))
    yield ""
    columns = [column for column in version["additionalPrinterColumns"] if "description" in column]
    yield f"### {names['kind']}: columns of kubectl get\n"
    yield from (f"* {column['name'].upper()}: {column['description']}" for column in columns)
    yield ""


def _row(cells: Any) -> str:
    return f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in cells)} |"


def _fields(node: Schema, path: str = "") -> Iterator[tuple[str, Schema, bool]]:
    """Path, schema, and whether it is required where its parent is there."""
    if node.get("x-kubernetes-preserve-unknown-fields"):
        return
    for name, part in node.get("properties", {}).items():
        below = f"{path}.{name}" if path else name
        yield below, part, name in node.get("required", ())
        yield from _fields(part, below)
        if "items" in part:
            yield from _fields(part["items"], f"{below}[]")


def _type(node: Schema) -> str:
    if "enum" in node:
        return " or ".join(f"`{choice}`" for choice in node["enum"])
    if node.get("x-kubernetes-int-or-string"):
        return "quantity"
    if "additionalProperties" in node:
        values = node["additionalProperties"]
        return f"mapping to {'values' if 'type' not in values and len(values) == 1 else _type(values)}"
    if node["type"] == "array":
        items = node["items"]
        return "list" if "properties" in items else f"list of {_type(items)}, at most {node['maxItems']}"
    words = {"integer": "number", "number": "number", "string": "text", "boolean": "`true` or `false`"}
    kind = "time" if node.get("format") == "date-time" else words.get(node["type"], "mapping")
    if "minimum" in node and "maximum" in node:
        return (
            f"{'whole ' if node['type'] == 'integer' else ''}{kind}, {node['minimum']} to {node['maximum']}"
        )
    return f"whole {kind}" if node["type"] == "integer" else kind


def _default(node: Schema) -> str:
    default = node.get("default")
    if default is None or default == {}:
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _rules(node: Schema, path: str = "") -> Iterator[tuple[str, str]]:
    for rule in node.get("x-kubernetes-validations", ()):
        yield path + rule.get("fieldPath", ""), rule["message"]
    for name, part in node.get("properties", {}).items():
        yield from _rules(part, f"{path}.{name}")
    for key, mark in (("items", "[]"), ("additionalProperties", ".*")):
        if key in node:
            yield from _rules(node[key], path + mark)


def _where(path: str) -> str:
    return f"`{path.lstrip('.')}`: " if path else ""


def _paragraphs(doc: str) -> str:
    """A docstring's text as Markdown."""
    return doc.replace("``", "`").strip() + "\n"


if __name__ == "__main__":
    TARGET.write_text(reference())
