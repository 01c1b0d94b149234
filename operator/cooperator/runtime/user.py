"""A user that the system does not know by name, as clusters choose one for a container (OpenShift does).

Hadoop, and so Spark, asks the system for its user's name when it starts, and ends without one. The image has
a library (Debian's libnss-wrapper) that answers such questions out of a file, for processes that are told to.
"""

import ctypes
import os
import pwd
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_NAME: Final = "cooperator"
_LIBRARY: Final = "libnss_wrapper.so"


class NobodyKnowsThisUser(Exception):
    """The process's user has no name, and nothing is there to give it one; the message has the remedy."""


def user_environment(folder: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """What a JVM's environment needs beside ``environment`` so that its user has a name; most often nothing.

    Writes two files to ``folder``. Raises NobodyKnowsThisUser.
    """
    user, group = os.getuid(), os.getgid()
    try:
        pwd.getpwuid(user)
    except KeyError:
        pass
    else:
        return {}
    try:
        # As the JVM's loader will look for it.
        ctypes.CDLL(_LIBRARY)
    except OSError as error:
        raise NobodyKnowsThisUser(
            f"user {user} is not in /etc/passwd, and Spark needs a name for it: install libnss-wrapper, "
            f"or run as a user of this system ({error})"
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
