"""Parts that pip cannot install: a Java runtime that is found, and Java libraries that are fetched.

What may live here: the named bundles of jars with their lock files, how a bundle is resolved into a
cache, how a supported Java is found on this machine, and archives of the classes that it loads. Imports no
other room, and not pyspark: Ivy, which ships inside pyspark, is located without importing it.

``python -m cooperator.artifacts.lock`` writes the lock files anew after a version in ``bundles`` changed.
"""

from cooperator.artifacts.bundles import BUNDLES, KAFKA_VERSION, SPARK_VERSION, Artifact, Bundle
from cooperator.artifacts.cache import resolve
from cooperator.artifacts.classes import use_archive, write_archive
from cooperator.artifacts.errors import ArtifactError, JavaNotFound
from cooperator.artifacts.ivy import spark_jars
from cooperator.artifacts.java import find_java, java_home
from cooperator.artifacts.packages import resolve_packages

__all__ = [
    "BUNDLES",
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
