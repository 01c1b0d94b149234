"""What can go wrong while parts are fetched; every message names the remedy."""


class ArtifactError(Exception):
    """A bundle could not be had: the message says what failed and what to do about it."""


class JavaNotFound(ArtifactError):
    """No Java of a supported version is on this machine."""
