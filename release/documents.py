"""Contents of a release's files, from texts and bytes alone: nothing here reads a clock or a disk."""

import gzip
import io
import json
import re
import tarfile
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import yaml

from release.errors import ReleaseError

IMAGES: Final = {"image": ("repository", "cooperator-operator"), "worker": ("image", "cooperator-worker")}
"""The groups of the chart's values that name an image: the key of its name, and the name."""


def check_versions(version: str, project: str, charts: Mapping[str, Mapping[str, Any]]) -> None:
    """Compares the version with that of ``pyproject.toml`` and with ``appVersion`` of each chart.

    Raises ReleaseError.
    """
    found = {"pyproject.toml": project}
    found |= {f"charts/{name}/Chart.yaml": str(chart["appVersion"]) for name, chart in charts.items()}
    for file, there in found.items():
        if there != version:
            raise ReleaseError(
                f"VERSION is {version}, and {file} has {there}: write {version} there and commit it"
            )


def notes(changelog: str, version: str) -> tuple[str, bool]:
    """Returns the section of the version, and whether it has one; otherwise the text is that of Unreleased.

    Raises ReleaseError if there is neither.
    """
    parts = re.split(r"^## \[?([^\]\s]+)\]?.*$", changelog, flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    text = sections.get(version, sections.get("Unreleased", "")).strip()
    if not text:
        raise ReleaseError(f"CHANGELOG.md has no section [{version}]: rename Unreleased to it")
    return text + "\n", version in sections


def pinned(values: str, registry: str, digests: Mapping[str, str]) -> str:
    """Returns values.yaml with the images of the registry by their digests; comments stay.

    ``digests``: ``sha256:…`` by the name of the image. Raises ReleaseError if the text has no such values.
    """
    for group, (key, image) in IMAGES.items():
        for name, value in ((key, f"{registry}/{image}"), ("digest", digests[image])):
            line = re.compile(rf"^({group}:\n(?:(?: .*)?\n)*?  {name}: ).*$", re.MULTILINE)
            values, count = line.subn(lambda found, value=value: f"{found[1]}{value}", values, count=1)  # type: ignore[misc]
            if not count or yaml.safe_load(values)[group][name] != value:
                raise ReleaseError(
                    f"values.yaml has no {group}.{name}, which names an image: see release/documents.py"
                )
    return values


def annotated(chart: str, version: str, registry: str, digests: Mapping[str, str]) -> str:
    """Returns Chart.yaml with the annotations of this release, as Artifact Hub reads them."""
    document = yaml.safe_load(chart)
    images = [{"name": name, "image": f"{registry}/{name}@{digest}"} for name, digest in digests.items()]
    document["annotations"] |= {
        "artifacthub.io/images": yaml.safe_dump(images, sort_keys=False),
        "artifacthub.io/prerelease": json.dumps(bool(re.search(r"[a-z]", version))),
    }
    return yaml.safe_dump(document, sort_keys=False, width=1000)


def packed_again(archive: bytes, epoch_s: int) -> bytes:
    """Returns a .tar.gz of the same files, sorted, without owners, all of one time (seconds since 1970)."""
    buffer = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive)) as source,
        gzip.GzipFile(filename="", fileobj=buffer, mode="wb", mtime=epoch_s) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.GNU_FORMAT) as target,
    ):
        for member in sorted(source.getmembers(), key=lambda each: each.name):
            anonymous(member, epoch_s)
            target.addfile(member, source.extractfile(member) if member.isreg() else None)
    return buffer.getvalue()


def anonymous(member: tarfile.TarInfo, epoch_s: int) -> tarfile.TarInfo:
    """Removes owner and time of an archive's entry."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = epoch_s
    member.pax_headers = {}
    return member


def settled(bill: str, digest: str, epoch_s: int) -> str:
    """Returns a bill of materials (CycloneDX, JSON) whose number and time follow from the image alone."""
    document = json.loads(bill)
    document["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, digest)}"
    document["metadata"]["timestamp"] = datetime.fromtimestamp(epoch_s, UTC).isoformat()
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def checksums(sha256: Mapping[str, str]) -> str:
    """Returns the lines of ``sha256sum``, sorted by the names of the files."""
    return "".join(f"{sha256[name]}  {name}\n" for name in sorted(sha256))
