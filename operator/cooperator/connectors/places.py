"""Locations of checkpoints: a directory of a file system, or a prefix in an S3-compatible store.

``Place`` is the common interface of both. A store has no directories: it only has prefixes of names.
"""

import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from cooperator.model.extras import Extra, NotInstalled, require

if TYPE_CHECKING:
    from obstore.store import S3Store

SCHEME = "s3a"
_CONF = "spark.hadoop.fs.s3a."


class NoPlace(ValueError):
    """Checkpoints cannot be at the given location; the message names the field, its value and the remedy."""


@dataclass(frozen=True)
class StorePlace:
    """A place below ``root``, which is ``s3a://bucket/path``. ``key`` has no leading or trailing slashes."""

    root: str
    store: "S3Store" = field(repr=False, compare=False)
    key: str = ""

    def __truediv__(self, name: str) -> "StorePlace":
        return StorePlace(self.root, self.store, f"{self.key}/{name}".strip("/"))

    def __str__(self) -> str:
        return f"{self.root}/{self.key}".rstrip("/")

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    @property
    def parent(self) -> "StorePlace":
        return StorePlace(self.root, self.store, self.key.rpartition("/")[0])

    def read_bytes(self) -> bytes:
        """Raises ``FileNotFoundError`` when the object does not exist."""
        return bytes(self.store.get(self.key).bytes())

    def read_text(self) -> str:
        return self.read_bytes().decode()

    def exists(self) -> bool:
        try:
            self.store.head(self.key)
        except FileNotFoundError:
            return False
        return True

    def unlink(self, missing_ok: bool = False) -> None:
        """Deletes the object. A missing object is no error: a store cannot tell the difference."""
        self.store.delete(self.key)


Place: TypeAlias = Path | StorePlace


def names(place: Place) -> list[str]:
    """Returns the names of the files directly below; an empty list if there is nothing."""
    if isinstance(place, Path):
        try:
            return os.listdir(place)
        except FileNotFoundError:
            return []
    found = place.store.list_with_delimiter(f"{place.key}/")["objects"]
    return [entry["path"].rpartition("/")[2] for entry in found if entry["path"] != place.key]


def directories(place: Place) -> list[str]:
    """Returns the sorted names of the directories directly below; in a store, of prefixes that have files."""
    if isinstance(place, Path):
        return sorted(path.name for path in place.iterdir() if path.is_dir()) if place.is_dir() else []
    found = place.store.list_with_delimiter(f"{place.key}/")["common_prefixes"]
    return sorted(prefix.rstrip("/").rpartition("/")[2] for prefix in found)


def sizes(place: Place) -> dict[str, int]:
    """Returns the sizes in bytes of the files directly below, by name; empty if there is nothing.

    Files that go meanwhile are left out.
    """
    if isinstance(place, StorePlace):
        found = place.store.list_with_delimiter(f"{place.key}/")["objects"]
        return {entry["path"].rpartition("/")[2]: entry["size"] for entry in found}
    known: dict[str, int] = {}
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(place) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                if entry.is_file():
                    known[entry.name] = entry.stat().st_size
    return known


def put(place: Place, content: bytes) -> None:
    """Writes a file atomically and durably; replaces an existing one."""
    if isinstance(place, StorePlace):
        place.store.put(place.key, content)
        return
    with _written_beside(place, content) as part:
        part.replace(place)


def create(place: Place, content: bytes, check: Callable[[], None] = lambda: None) -> bool:
    """Creates a file atomically and durably; returns False if it exists. Concurrent calls have one winner.

    ``check`` is called right before the file appears, and may raise.
    """
    if isinstance(place, StorePlace):
        from obstore.exceptions import AlreadyExistsError

        check()
        try:
            place.store.put(place.key, content, mode="create")
        except AlreadyExistsError:
            return False
        return True
    with _written_beside(place, content) as part:
        check()
        try:
            os.link(part, place)
        except FileExistsError:
            return False
    return True


@contextmanager
def _written_beside(place: Path, content: bytes) -> Iterator[Path]:
    """Yields a durable file beside ``place``; deletes it afterwards unless it was moved."""
    place.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}-")
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield part
    finally:
        part.unlink(missing_ok=True)


def remove_tree(place: Place) -> None:
    """Deletes everything at and below the place."""
    if isinstance(place, Path):
        import shutil

        shutil.rmtree(place)
        return
    for entries in place.store.list(f"{place.key}/"):
        place.store.delete([entry["path"] for entry in entries])


def uri(place: Place) -> str:
    """Returns the URI for Spark."""
    return str(place) if isinstance(place, StorePlace) else f"file://{place}"


def is_in_store(location: str) -> bool:
    return location.startswith(f"{SCHEME}://")


_seen_lock = threading.Lock()
_proven: set[str] = set()


def place_of(location: Path | str, conf: Mapping[str, str], environment: Mapping[str, str]) -> Place:
    """Returns the place of checkpoints.

    ``conf`` is Spark's, resolved. Store settings and credentials that it lacks are read from ``environment``,
    under Amazon's names. Raises ``NoPlace``, also when a store replaces objects that must not be replaced.
    """
    if isinstance(location, Path) or not urlsplit(location).scheme:
        return Path(location)
    parts = urlsplit(location)
    if parts.scheme != SCHEME or not parts.netloc:
        raise NoPlace(
            f"spec.checkpointLocation {location!r}: checkpoints must be in a directory shared by all members "
            "or in an S3-compatible store; use /a/directory or s3a://bucket/path"
        )
    place = store_place(location, conf, environment, "spec.checkpointLocation")
    prove(place, "spec.checkpointLocation")
    return place


def store_place(
    location: str, conf: Mapping[str, str], environment: Mapping[str, str], field: str
) -> StorePlace:
    """Returns a place in a store, without sending a request yet.

    ``field`` is the setting that names the place, for errors. Raises ``NoPlace``.
    """
    try:
        require(Extra.S3, f"{field} {location!r}")
    except NotInstalled as error:
        raise NoPlace(str(error)) from None
    from obstore.store import S3Store

    parts = urlsplit(location)
    prefix = parts.path.strip("/")
    store = S3Store(parts.netloc, prefix=prefix or None, **_settings(conf, environment))
    return StorePlace(f"{SCHEME}://{parts.netloc}/{prefix}".rstrip("/"), store)


def hadoop_settings(conf: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings of Hadoop's store client, which does not read all that Amazon's clients do."""
    endpoint = _endpoint(conf, environment)
    found = {f"{_CONF}endpoint.region": _region(conf, environment)}
    if endpoint:
        found |= {
            f"{_CONF}endpoint": endpoint,
            f"{_CONF}path.style.access": "true",
            f"{_CONF}connection.ssl.enabled": str(not endpoint.startswith("http://")).lower(),
        }
    return {name: value for name, value in found.items() if name not in conf}


def _endpoint(conf: Mapping[str, str], environment: Mapping[str, str]) -> str:
    named = conf.get(f"{_CONF}endpoint")
    if named and "://" not in named:
        named = ("http://" if conf.get(f"{_CONF}connection.ssl.enabled") == "false" else "https://") + named
    return named or environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL") or ""


def _region(conf: Mapping[str, str], environment: Mapping[str, str]) -> str:
    named = conf.get(f"{_CONF}endpoint.region") or environment.get("AWS_REGION")
    return named or environment.get("AWS_DEFAULT_REGION") or "us-east-1"


def _settings(conf: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {"region": _region(conf, environment)}
    if endpoint := _endpoint(conf, environment):
        style = conf.get(f"{_CONF}path.style.access", "true")
        found |= {
            "endpoint": endpoint,
            "virtual_hosted_style_request": style != "true",
            "client_options": {"allow_http": endpoint.startswith("http://")},
        }
    of_conf = {
        "access_key_id": conf.get(f"{_CONF}access.key"),
        "secret_access_key": conf.get(f"{_CONF}secret.key"),
        "session_token": conf.get(f"{_CONF}session.token"),
    }
    of_environment = {name: environment.get(f"AWS_{name.upper()}") for name in of_conf}
    # Keys are used together or not at all; without them the client asks its machine for credentials.
    for keys in (of_conf, of_environment):
        if keys["access_key_id"] and keys["secret_access_key"]:
            return found | {name: value for name, value in keys.items() if value}
    return found


def prove(place: StorePlace, field: str, at: StorePlace | None = None) -> None:
    """Checks conditional writes: a store that ignores ``If-None-Match`` would let two attempts win.

    ``at`` is where the probe is left (default: the place). ``field`` is the setting that names the place.
    Raises ``NoPlace``.
    """
    with _seen_lock:
        if str(place) in _proven:
            return
        probe = (at or place) / ".cooperator-probe"
        try:
            create(probe, b"")
            replaced = create(probe, b"")
        except Exception as error:
            reason = str(error).splitlines()[0][:300]
            raise NoPlace(
                f"{field} {place}: the store is not writable: {reason}; check the bucket, "
                "AWS_ENDPOINT_URL_S3 (or spark.hadoop.fs.s3a.endpoint) and the credentials"
            ) from None
        if replaced:
            raise NoPlace(
                f"{field} {place}: the store ignores If-None-Match and replaces existing "
                "objects, so it cannot fence members; use a store with conditional writes"
            )
        _proven.add(str(place))
