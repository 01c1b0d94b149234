"""Processor quotas for single processes, by Linux's cgroups of version 1 or 2."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

_ROOT: Final = Path("/sys/fs/cgroup")
_PERIOD_US: Final = 100_000


def usable() -> str:
    """Returns why there can be no quotas here; empty if there can be."""
    controller = _controller()
    if controller is None:
        return f"{_ROOT} has no controller cpu: mount it, or run this on another machine"
    if not os.access(controller, os.W_OK) or os.geteuid() != 0:
        return f"{controller} is not writable: run this as root, and with the controller delegated"
    return ""


def _controller() -> Path | None:
    """The directory in which cgroups with a quota can be made: this process's own, where it may have others
    in it."""
    old = _ROOT / "cpu"
    if old.exists():
        mine = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
        return next((old / path.lstrip("/") for _, names, path in mine if "cpu" in names.split(",")), old)
    controllers = _ROOT / "cgroup.controllers"
    if controllers.exists() and "cpu" in controllers.read_text().split():
        return _ROOT
    return None


class Cgroup:
    """A cgroup, made by its constructor. Raises OSError."""

    def __init__(self, name: str) -> None:
        controller = _controller()
        assert controller is not None, usable()
        self._is_old = (_ROOT / "cpu").exists()
        if not self._is_old:
            (controller / "cgroup.subtree_control").write_text("+cpu")
        self._path = controller / name
        self._path.mkdir()

    def limit(self, cores: float) -> None:
        quota_us = round(cores * _PERIOD_US)
        if self._is_old:
            (self._path / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
            (self._path / "cpu.cfs_quota_us").write_text(str(quota_us))
        else:
            (self._path / "cpu.max").write_text(f"{quota_us} {_PERIOD_US}")

    def add(self, pid: int) -> None:
        """Moves a process with all of its threads."""
        (self._path / "cgroup.procs").write_text(str(pid))

    def throttled_s(self) -> float:
        """For how long threads had to wait for their quota."""
        found = dict(line.split() for line in (self._path / "cpu.stat").read_text().splitlines())
        if "throttled_time" in found:
            return int(found["throttled_time"]) / 1e9
        return int(found.get("throttled_usec", 0)) / 1e6

    def close(self) -> None:
        """Removes it; its processes must have ended."""
        with suppress(OSError):
            self._path.rmdir()
