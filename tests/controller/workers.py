"""A Worker for tests of pure parts."""

from cooperator.crd import Worker, parse


def worker(spec: str = "{}") -> Worker:
    [found] = parse(
        f"apiVersion: cooperator.dev/v1alpha1\nkind: Worker\nmetadata: {{name: lake, uid: u}}\nspec: {spec}",
        "t",
    )
    assert isinstance(found, Worker)
    return found
