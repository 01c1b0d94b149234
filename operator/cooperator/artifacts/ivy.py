"""Downloads artifacts with Apache Ivy, which ships inside pyspark: a list of artifacts in, a folder of jars
out."""

import os
import re
import subprocess
from collections.abc import Callable, Sequence
from importlib.resources import as_file, files
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from xml.sax.saxutils import quoteattr

from cooperator.artifacts.bundles import Artifact
from cooperator.artifacts.errors import ArtifactError, NotThere
from cooperator.artifacts.java import FILE_NAMES, find_java
from cooperator.model.extras import Extra

_ATTEMPTS: Final = 3
"""Registries sometimes drop a request; files that have arrived are not fetched again."""

Progress = Callable[[str], None]


def retrieve(
    artifacts: Sequence[Artifact],
    *,
    transitive: bool,
    pattern: str,
    cache: Path,
    progress: Progress,
    excluded: Sequence[str] = (),
    checksums: bool = False,
) -> None:
    """Put the jars of ``artifacts`` at ``pattern`` (an absolute path with Ivy's tokens).

    ``cache``: Ivy's own folder; the caller keeps it as long as a later call should continue this one.
    ``excluded``: names of unwanted artifacts, in any group. ``checksums``: fetch them from the registry, when
    there is no lock. Raises :exc:`ArtifactError`; :exc:`NotThere` when the registry answers that it does not
    have an artifact.
    """
    cache.mkdir(parents=True, exist_ok=True)
    module = cache / "cooperator-ivy.xml"
    module.write_text(_module(artifacts, excluded, transitive=transitive))
    own_settings = files("cooperator.artifacts") / "ivysettings.xml"
    with as_file(own_settings) as default_settings:
        settings = os.environ.get("COOPERATOR_IVY_SETTINGS") or str(default_settings)
        command = [
            str(find_java()),
            "-XX:TieredStopAtLevel=1",
            f"-Dcooperator.poms={str(transitive).lower()}",
            # Jars that a lock lists are checked against it instead, which halves the requests.
            f"-Divy.checksums={'sha1' if checksums else ''}",
            "-jar",
            str(_ivy_jar()),
            *("-settings", settings, "-cache", str(cache), "-ivy", str(module), "-retrieve", pattern),
        ]
        for _ in range(_ATTEMPTS):
            code, output = _run(command, progress)
            if code == 0:
                return
            if missing := _not_there(artifacts, output):
                raise NotThere(missing)
    raise ArtifactError(_failure(output))


def _not_there(artifacts: Sequence[Artifact], output: Sequence[str]) -> tuple[Artifact, ...]:
    """Return the artifacts that the registry does not have; none for a network failure."""
    text = "\n".join(output)
    if "Server access error" in text or "SERVER ERROR" in text:
        return ()
    return tuple(a for a in artifacts if f"{a.group}#{a.name};{a.version}: not found" in text)


def _module(artifacts: Sequence[Artifact], excluded: Sequence[str], *, transitive: bool) -> str:
    dependencies = "\n".join(
        f"    <dependency org={quoteattr(a.group)} name={quoteattr(a.name)} rev={quoteattr(a.version)}"
        f' transitive="{str(transitive).lower()}" conf="default->default">{_file(a)}</dependency>'
        for a in artifacts
    )
    exclusions = "\n".join(f"    <exclude module={quoteattr(name)}/>" for name in excluded)
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">\n'
        '  <info organisation="cooperator" module="bundle" revision="1"/>\n'
        '  <configurations><conf name="default"/></configurations>\n'
        f"  <dependencies>\n{dependencies}\n{exclusions}\n  </dependencies>\n"
        "</ivy-module>\n"
    )


def _file(artifact: Artifact) -> str:
    """Return the element for a file other than the release's jar; empty for that jar."""
    if not artifact.classifier and artifact.extension == "jar":
        return ""
    classifier = f" m:classifier={quoteattr(artifact.classifier)}" if artifact.classifier else ""
    kind = quoteattr(artifact.extension)
    return f"<artifact name={quoteattr(artifact.name)} type={kind} ext={kind}{classifier}/>"


def spark_jars() -> list[Path]:
    """Return the jars inside pyspark."""
    # find_spec, since importing pyspark takes a second and belongs to another package.
    spec = find_spec("pyspark")
    locations = (spec.submodule_search_locations or ()) if spec else ()
    return [jar for location in locations for jar in sorted(Path(location, "jars").glob("*.jar"))]


def spark_brings() -> set[str]:
    """Return the names of the artifacts inside pyspark."""
    return {re.sub(r"-\d[^/]*$", "", jar.stem) for jar in spark_jars()}


def _ivy_jar() -> Path:
    for jar in spark_jars():
        if jar.name.startswith("ivy-"):
            return jar
    raise ArtifactError(f"Apache Ivy, which ships inside pyspark, was not found: {Extra.SPARK.command}")


def _run(command: Sequence[str], progress: Progress) -> tuple[int, list[str]]:
    output: list[str] = []
    with subprocess.Popen(
        command,
        env={**os.environ, **FILE_NAMES},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                output.append(line.rstrip())
                if line.startswith("downloading "):
                    progress(line.removesuffix(" ...\n").rpartition("/")[2])
        except BaseException:
            process.kill()
            raise
    return process.returncode, output


def _failure(output: Sequence[str]) -> str:
    missing = [line.strip(" :\t") for line in output if "not found" in line or "FAILED" in line]
    detail = "; ".join(dict.fromkeys(missing)) or "\n".join(output[-10:])
    return (
        f"Java libraries could not be downloaded: {detail}. Check the network and proxy (Java reads "
        "-Dhttps.proxyHost from JAVA_TOOL_OPTIONS), or set COOPERATOR_IVY_SETTINGS to an ivysettings.xml "
        "that points to a mirror. Completed downloads are kept."
    )
