"""A process whose user id has no name on the system."""

import os
import pwd
from pathlib import Path

import pytest

from cooperator.runtime.user import UnknownUser, user_environment


def test_a_known_user_needs_nothing(tmp_path: Path) -> None:
    assert user_environment(tmp_path / "user", {}) == {}
    assert not (tmp_path / "user").exists()


@pytest.fixture
def unknown(monkeypatch: pytest.MonkeyPatch) -> int:
    def nobody(user: int) -> pwd.struct_passwd:
        raise KeyError(user)

    monkeypatch.setattr("cooperator.runtime.user.pwd.getpwuid", nobody)
    monkeypatch.setattr("cooperator.runtime.user.os.getuid", lambda: 1_000_650_000)
    return 1_000_650_000


def test_an_unnamed_user_without_the_library_gets_the_remedy(
    unknown: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: no such file")

    monkeypatch.setattr("cooperator.runtime.user.ctypes.CDLL", missing)
    with pytest.raises(UnknownUser, match=r"1000650000.*install libnss-wrapper"):
        user_environment(tmp_path, {})


def test_the_library_is_loaded_beside_others_and_finds_the_name(
    unknown: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cooperator.runtime.user.ctypes.CDLL", lambda name: None)
    made = user_environment(tmp_path / "user", {"LD_PRELOAD": "libfast.so"})
    assert made["LD_PRELOAD"] == "libfast.so libnss_wrapper.so"
    # The library's reader and all others parse such a file this way.
    fields = Path(made["NSS_WRAPPER_PASSWD"]).read_text().strip().split(":")
    assert (fields[0], fields[2], len(fields)) == ("cooperator", str(unknown), 7)
    groups = Path(made["NSS_WRAPPER_GROUP"]).read_text().strip().split(":")
    assert groups[2] == fields[3] == str(os.getgid())
