"""A user without a name in the system, as clusters choose one for a container (OpenShift does).

Hadoop, and so Spark, asks the system for its user's name when it starts, and ends without one. The image has
a library (Debian's libnss-wrapper) that answers such requests from a file, for processes that enable it.
"""

import ctypes
import os
import pwd
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_NAME: Final = "cooperator"
_LIBRARY: Final = "libnss_wrapper.so"


class UnknownUser(Exception):
    """The process's user has no name, and nothing can give it one; the message has the remedy."""


def user_environment(folder: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment variables that give a JVM's user a name; usually none.

    They are added to ``environment``.

    Writes two files to ``folder``. Raises ``UnknownUser``.
    """
    user, group = os.getuid(), os.getgid()
    try:
        pwd.getpwuid(user)
    except KeyError:
        pass
    else:
        return {}
    try:
        # The JVM's loader looks for it in the same way.
        ctypes.CDLL(_LIBRARY)
    except OSError as error:
        raise UnknownUser(
            f"user {user} has no name in /etc/passwd, which Spark requires: install libnss-wrapper, or run "
            f"as a user of this system ({error})"
        ) from None
    folder.mkdir(parents=True, exist_ok=True)
    users, groups = folder / "passwd", folder / "group"
    users.write_text(f"{_NAME}:x:{user}:{group}:{_NAME}:{folder}:/usr/sbin/nologin\n")
    groups.write_text(f"{_NAME}:x:{group}:\n")
    return {
        "LD_PRELOAD": " ".join(filter(None, (environment.get("LD_PRELOAD"), _LIBRARY))),
        "NSS_WRAPPER_PASSWD": str(users),
        "NSS_WRAPPER_GROUP": str(groups),
    }
