"""``python leave.py NAMESPACE PLURAL/NAME…``: deletes Connectors and Workers in this order, and waits.

The operator has to run, since it ends members in order and then removes the finalizers.
"""

import sys
import time
from http import HTTPStatus

from kubernetes import client, config

GROUP, VERSION = "cooperator.dev", "v1alpha1"
TIMEOUT_S = 240


def main(namespace: str, *objects: str) -> None:
    """Exits with a message if an object is still there after TIMEOUT_S."""
    config.load_incluster_config()
    api = client.CustomObjectsApi()
    deadline = time.monotonic() + TIMEOUT_S
    for each in objects:
        where = (GROUP, VERSION, namespace, *each.split("/"))
        while there(api.delete_namespaced_custom_object, *where):
            if time.monotonic() > deadline:
                sys.exit(f"{each} is there after {TIMEOUT_S} s: its condition Ready says what it waits for")
            time.sleep(1)
        print(f"{each} is gone", flush=True)


def there(request, *where) -> bool:
    try:
        request(*where)
    except client.ApiException as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return False
    return True


if __name__ == "__main__":
    main(*sys.argv[1:])
