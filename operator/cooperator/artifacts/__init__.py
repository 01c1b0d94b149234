"""Parts that pip cannot install: a Java runtime that is found, and Java libraries that are fetched.

What may live here: the named bundles of jars with their lock files, how a bundle is resolved into a
cache, and how a supported Java is found on this machine. Imports no other room, and not pyspark: Ivy,
which ships inside pyspark, is located without importing it.

``python -m cooperator.artifacts.lock`` writes the lock files anew after a version in ``bundles`` changed.
"""

from cooperator.artifacts.bundles import BUNDLES, KAFKA_VERSION, SPARK_VERSION, Artifact, Bundle
from cooperator.artifacts.cache import resolve
from cooperator.artifacts.errors import ArtifactError, JavaNotFound
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
]
