"""The two ways in which a codec says no."""


class DecodeError(ValueError):
    """The bytes are not what they should be. The message names the field and what is wrong with it."""


class EncodeError(ValueError):
    """The value cannot be written in this format. The message names the field, the value and the limit."""
