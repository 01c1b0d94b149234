"""Dependencies that pip cannot install: finds a Java runtime, and fetches Java libraries.

Contents: the named bundles of jars with their lock files, resolving a bundle into a cache, finding
a supported Java on this machine, and archives of the classes that it loads. Imports no other package but
``model``, and not pyspark: Ivy, which ships inside pyspark, is located without importing it.

``python -m cooperator.artifacts.lock`` rewrites the lock files after a version in ``bundles`` changed.
"""

from cooperator.artifacts.bundles import BUNDLES, KAFKA_VERSION, SPARK_VERSION, Artifact, Bundle
from cooperator.artifacts.cache import resolve
from cooperator.artifacts.classes import use_archive, write_archive
from cooperator.artifacts.errors import ArtifactError, JavaNotFound
from cooperator.artifacts.ivy import spark_jars
from cooperator.artifacts.java import FILE_NAMES, find_java, java_home
from cooperator.artifacts.packages import resolve_packages

__all__ = [
    "BUNDLES",
    "FILE_NAMES",
    "KAFKA_VERSION",
    "SPARK_VERSION",
    "Artifact",
    "ArtifactError",
    "Bundle",
    "JavaNotFound",
    "find_java",
    "java_home",
    "resolve",
    "resolve_packages",
    "spark_jars",
    "use_archive",
    "write_archive",
]
