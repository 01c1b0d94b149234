"""Builds the images of the root Dockerfile as OCI archives, and their bills of materials."""

import json
import platform
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from release.documents import anonymous, settled
from release.errors import ReleaseError
from release.programs import run

TARGETS: Final = {"cooperator-operator": "operator", "cooperator-worker": "worker"}
"""The stages of the Dockerfile, by the names of the images."""
_EMULATORS: Final = Path("/proc/sys/fs/binfmt_misc")
_MACHINES: Final = {"amd64": "x86_64", "arm64": "aarch64"}


def platforms(emulators: Path = _EMULATORS, machine: str = "") -> dict[str, str]:
    """Returns the architectures that this machine can build, each with the reason why it cannot, or ""."""
    own = machine or platform.machine()
    return {
        architecture: ""
        if name == own or (emulators / f"qemu-{name}").exists()
        else f"this machine ({own}) runs no programs for it, and has no qemu-{name} (qemu-user-static)"
        for architecture, name in _MACHINES.items()
    }


def build(
    source: Path, name: str, version: str, base: str, architectures: list[str], into: Path, epoch_s: int
) -> str:
    """Writes the archive ``NAME-VERSION.oci.tar`` and one bill of materials for each architecture.

    Returns the digest of the image's index. Two calls on one machine return the same, as long as buildah
    has its layers (decision 091). Raises ReleaseError.
    """
    listed = f"localhost/cooperator-release/{name}:{version}"
    # An existing list would be added to.
    if json.loads(run("buildah", "images", "--json", f"--filter=reference={listed}")):
        run("buildah", "manifest", "rm", listed)
    run(
        *("buildah", "build", "--layers", "--force-rm", f"--manifest={listed}", f"--target={TARGETS[name]}"),
        *(f"--platform={','.join(f'linux/{each}' for each in architectures)}", f"--build-arg=BASE={base}"),
        # A JVM asks for the machine's name.
        *("--network=host", "--uts=host", str(source)),
    )
    with tempfile.TemporaryDirectory(prefix=".layout-", dir=into) as made:
        layout = Path(made, "layout")
        run(
            "buildah",
            "manifest",
            "push",
            "--all",
            "--quiet",
            "--format=oci",
            listed,
            f"oci:{layout}:{version}",
        )
        [index] = json.loads((layout / "index.json").read_text())["manifests"]
        digest: str = index["digest"]
        for architecture in architectures:
            bill = run(
                *("syft", "scan", f"oci-dir:{layout}", "--quiet", f"--platform=linux/{architecture}"),
                *("--output=cyclonedx-json", f"--source-name={name}", f"--source-version={version}"),
                # Packages, without each of their files.
                SYFT_FILE_METADATA_SELECTION="none",
            )
            file = into / f"{name}-{version}-linux-{architecture}.cdx.json"
            file.write_text(settled(bill, f"{digest} {architecture}", epoch_s))
        _pack(layout, into / f"{name}-{version}.oci.tar", epoch_s)
    return digest


def _pack(layout: Path, archive: Path, epoch_s: int) -> None:
    with tarfile.open(archive, "w", format=tarfile.GNU_FORMAT) as tar:
        for path in sorted(layout.rglob("*")):
            name = str(path.relative_to(layout))
            tar.add(path, name, recursive=False, filter=lambda member: anonymous(member, epoch_s))


def push(archive: Path, target: str, *, plain_http: bool) -> None:
    """Sends all architectures to ``registry/name:version``; digests stay. Raises ReleaseError."""
    verify = f"--dest-tls-verify={'false' if plain_http else 'true'}"
    run(
        "skopeo",
        "copy",
        "--quiet",
        "--all",
        "--preserve-digests",
        verify,
        f"oci-archive:{archive}",
        f"docker://{target}",
    )


def check_architectures(wanted: list[str]) -> list[str]:
    """Returns those that can be built, and prints why others cannot.

    Raises ReleaseError for unknown ones, and if none is left.
    """
    known = platforms()
    if unknown := [each for each in wanted if each not in known]:
        raise ReleaseError(f"unknown architecture {unknown[0]!r}; use one of {', '.join(known)}")
    for each in wanted:
        if known[each]:
            print(f"==> NOT BUILT for {each}: {known[each]}", flush=True)
    able = [each for each in wanted if not known[each]]
    if not able:
        raise ReleaseError(f"no image can be built for {', '.join(wanted)} on this machine")
    return able
