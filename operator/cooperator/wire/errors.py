"""The two errors of a codec."""


class DecodeError(ValueError):
    """The bytes are malformed. The message names the field and the problem."""


class EncodeError(ValueError):
    """The value does not fit this format. The message names the field, the value and the limit."""
