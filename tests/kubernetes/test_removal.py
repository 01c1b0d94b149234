"""Things are removed although others remove them at the same time."""

import pytest

from tests.kubernetes import removal
from tests.kubernetes.processes import ServerFailed
from tests.kubernetes.removal import remove_all


def test_a_thing_that_goes_while_it_is_looked_at_does_not_end_the_removal() -> None:
    there = {"shim": "containerd-shim", "pod": "pod's cgroup"}
    others = ["remove the pod's cgroup"]

    def find() -> dict[str, str]:
        if "shim" not in there and others:
            others.clear()
            raise FileNotFoundError("/sys/fs/cgroup/pod")
        return dict(there)

    def remove(name: str) -> None:
        if name == "pod" and others:
            raise OSError("it is busy")
        del there[name]

    assert remove_all("thing", find, remove) == [("thing", "containerd-shim"), ("thing", "pod's cgroup")]
    assert there == {}


def test_what_cannot_be_looked_at_is_an_error_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "_REMOVAL_S", -1.0)

    def find() -> dict[str, str]:
        raise PermissionError(13, "no", "/var/log/containers")

    with pytest.raises(ServerFailed, match=r"what has a link cannot be looked at: .*/var/log/containers"):
        remove_all("link", find, lambda thing: None)
