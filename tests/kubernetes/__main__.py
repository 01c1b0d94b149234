"""``python -m tests.kubernetes build``, ``helm`` or ``images``: make ahead what tests make when they need it.

There is no ``__init__`` beside this file: tests have this folder's parent on their path, and a package there
would stand in the way of the Kubernetes client of the same name. Import from ``tests.kubernetes``.
"""

import sys
import time
from collections.abc import Callable

from tests.harness.runs import begin_run
from tests.kubernetes.binaries import binaries
from tests.kubernetes.go import NotBuilt
from tests.kubernetes.helm import helm
from tests.kubernetes.image_store import prepare
from tests.kubernetes.images import NoImages

PARTS: dict[str, Callable[[], object]] = {"build": binaries, "helm": helm, "images": prepare}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in PARTS:
        sys.exit(f"usage: python -m tests.kubernetes {'|'.join(PARTS)}")
    sys.stderr.write(begin_run())
    began = time.monotonic()
    try:
        PARTS[sys.argv[1]]()
    except (NotBuilt, NoImages) as problem:
        sys.exit(str(problem))
    sys.stderr.write(f"{sys.argv[1]}: {time.monotonic() - began:.1f} s\n")
