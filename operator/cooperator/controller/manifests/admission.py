"""The allow-list of Workers' pods as validations of a ValidatingAdmissionPolicy, printed for the chart. Pure.

python -m cooperator.controller.manifests.admission > charts/cooperator/files/admission-rules.yaml
"""

import json
import sys
from collections.abc import Iterator
from typing import Final

from cooperator.controller.manifests.allowed import ACCOUNT, POD, PROFILES, SECRET

HEADER: Final = """\
# The allow-list of Workers' pod templates as an admission policy: printed by
# python -m cooperator.controller.manifests.admission
"""
_SPEC: Final = "object.spec"
_TEMPLATE: Final = "object.spec.template.spec"
_KAFKA_SECRETS: Final = (
    "sasl.secretRef",
    "sasl.oauthbearer.caSecretRef",
    "tls.caSecretRef",
    "tls.certificateSecretRef",
)


def validations() -> Iterator[tuple[str, str]]:
    """(CEL expression, message) for each restricted field. The expression is true if the operator would
    create pods for the Worker.
    """
    known = POD.no_others(_TEMPLATE)
    yield _if_there("template.spec", known), "spec.template.spec has a field that is not allowed: remove it"
    for name, shape in POD.known.items():
        rule = shape.cel(f"{_TEMPLATE}.{name}")
        if rule != "true":
            path = f"template.spec.{name}"
            yield (
                _if_there(path, rule),
                f"spec.{path} exceeds what pods of Workers may request: see docs/security.md",
            )
    profiles = " || ".join(f"k.startsWith({json.dumps(prefix)})" for prefix in PROFILES)
    path = "template.metadata.annotations"
    yield (
        _if_there(path, f"{_SPEC}.{path}.all(k, !({profiles}))"),
        f"spec.{path} weakens a security profile: remove it",
    )
    pulled = f"{_SPEC}.imagePullSecrets.all(e0, {SECRET.cel('e0')})"
    yield (
        _if_there("imagePullSecrets", pulled),
        "spec.imagePullSecrets names a Secret that is not in the chart's value worker.secrets",
    )
    for path in (f"kafka.{each}" for each in _KAFKA_SECRETS):
        rule = SECRET.cel(f"{_SPEC}.{path}.name")
        yield (
            _if_there(f"{path}.name", rule),
            f"spec.{path} names a Secret that is not in the chart's value worker.secrets",
        )
    account, token = "serviceAccountName", "template.spec.automountServiceAccountToken"
    rule = ACCOUNT.cel(f"{_SPEC}.{account}")
    yield (
        _if_there(account, rule),
        f"spec.{account} names an account that is not in the chart's value worker.serviceAccounts",
    )
    needs = f"{_SPEC}.{token} != true || has({_SPEC}.{account}) || {ACCOUNT.cel(json.dumps('default'))}"
    yield (
        _if_there(token, needs),
        f"spec.{token} is true, and the account 'default' is not in the chart's value worker.serviceAccounts",
    )
    kafka_token = "kafka.sasl.oauthbearer.serviceAccountToken"
    needs = f"has({_SPEC}.{account}) || {ACCOUNT.cel(json.dumps('default'))}"
    yield (
        _if_there(kafka_token, needs),
        f"spec.{kafka_token} is set, and the account 'default' is not in the chart's value "
        "worker.serviceAccounts",
    )


def _if_there(path: str, rule: str) -> str:
    """An expression that is true if ``rule`` holds, or if the field at ``path`` below the spec, or one of its
    parents, is absent.
    """
    parts = path.split(".")
    paths = (f"{_SPEC}.{'.'.join(parts[: n + 1])}" for n in range(len(parts)))
    return " || ".join([f"!has({_SPEC})", *(f"!has({each})" for each in paths), f"({rule})"])


def rules() -> str:
    """Returns the contents of the chart's file, as YAML."""
    entries = (
        f"- message: {json.dumps(message)}\n  expression: >-\n    {rule}\n" for rule, message in validations()
    )
    return HEADER + "".join(entries)


if __name__ == "__main__":
    sys.stdout.write(rules())
