"""``python -m release build|publish --version VERSION --registry HOST/PATH``; ``make release`` calls it."""

import argparse
import sys
from pathlib import Path

from release import images, making
from release.errors import ReleaseError
from release.programs import check_programs, run


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="release", description=__doc__)
    parser.add_argument("what", choices=("build", "publish"))
    parser.add_argument("--version", required=True, help="the version in pyproject.toml")
    parser.add_argument("--registry", required=True, help="host and folder, such as registry.example/team")
    parser.add_argument("--into", type=Path, help="folder of the files; default: dist/VERSION")
    parser.add_argument("--base", default="debian:bookworm-slim", help="base of the images: a Debian 12")
    parser.add_argument("--architectures", default="amd64,arm64", help="architectures of the images")
    options = parser.parse_args(arguments)
    into = (options.into or making.ROOT / "dist" / options.version).absolute()
    try:
        if not options.version or not options.registry:
            raise ReleaseError(
                "VERSION or REGISTRY is empty: make release VERSION=0.1.0 REGISTRY=registry.example/team"
            )
        if options.what == "build":
            wanted = options.architectures.split(",")
            print(making.build(options.version, options.registry, into, options.base, wanted), end="")
        else:
            publish(options.version, options.registry, into)
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


def publish(version: str, registry: str, into: Path) -> None:
    """Sends images and charts of an earlier ``build`` to the registry. Raises ReleaseError."""
    check_programs(("skopeo", "helm"))
    if not (into / "SHA256SUMS").exists():
        raise ReleaseError(f"{into} has no release: run make release VERSION={version} REGISTRY={registry}")
    # A registry of this machine has no certificate.
    plain_http = registry.startswith(("localhost:", "127.0.0.1:"))
    for name in images.TARGETS:
        target = f"{registry}/{name}:{version}"
        images.push(into / f"{name}-{version}.oci.tar", target, plain_http=plain_http)
    for chart in sorted(into.glob("cooperator*.tgz")):
        run("helm", "push", str(chart), f"oci://{registry}/charts", *(["--plain-http"] if plain_http else []))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
