"""Login to Kafka by SASL/OAUTHBEARER (KIP-255, KIP-768): sources of tokens, and what each client is told.

``login`` has the settings and their translations, which are pure; ``tokens`` gets tokens and renews them.
"""

from cooperator.oauthbearer.login import MECHANISM, LoginInvalid, OAuthLogin, java_properties, token_file
from cooperator.oauthbearer.tokens import Tokens, TokenUnavailable, librdkafka_properties

__all__ = [
    "MECHANISM",
    "LoginInvalid",
    "OAuthLogin",
    "TokenUnavailable",
    "Tokens",
    "java_properties",
    "librdkafka_properties",
    "token_file",
]
