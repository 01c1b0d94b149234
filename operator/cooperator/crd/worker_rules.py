"""Rules among the fields of a Worker's spec that the API server checks, and the reasons for fixed fields."""

from typing import Final

from cooperator.crd.rules import Rule, all_hold, unchanged_within
from cooperator.crd.runtimes import ONLY_FOR

ONE_RUNTIME: Final = "members of two runtimes cannot share a group"
BOUND_TO_TOPIC: Final = "it contains the group's connectors and their progress"
BOUND_TO_GROUP: Final = "the members and the state of the group are bound to it"
PROGRESS_IS_THERE: Final = "it contains the progress of all tasks"
NOT_WITH_STOCK: Final = (
    "is for runtime: spark; stock workers know Kafka Connect's rounds only: remove it, or use sessioned"
)
NOT_WITH_POLICIES: Final = "requires policy: Default; Kip415 and Eager are defined in rounds"

SPEC_RULES: Final = all_hold(
    unchanged_within("groupId", prefix="spec", why=BOUND_TO_GROUP),
    unchanged_within("checkpointLocation", prefix="spec", why=PROGRESS_IS_THERE),
    unchanged_within("checkpointVolume", "claimName", prefix="spec", why=PROGRESS_IS_THERE),
    unchanged_within("checkpointVolume", "mountPath", prefix="spec", why=PROGRESS_IS_THERE),
    *(
        unchanged_within("connect", "topics", topic, prefix="spec", why=BOUND_TO_TOPIC)
        for topic in ("config", "offset", "status")
    ),
    *(only.rule for only in ONLY_FOR),
    Rule(
        "3 * self.heartbeatIntervalMs <= self.sessionTimeoutMs",
        "heartbeatIntervalMs is more than a third of sessionTimeoutMs: one late heartbeat would cost "
        "a member its tasks. Lower heartbeatIntervalMs or raise sessionTimeoutMs",
        ".heartbeatIntervalMs",
    ),
    Rule(
        "self.runtime == 'connect' || self.leaseMs > self.rebalanceTimeoutMs + self.heartbeatIntervalMs",
        "leaseMs is not greater than rebalanceTimeoutMs + heartbeatIntervalMs: members would stop "
        "their tasks in every slow round. Raise leaseMs or lower rebalanceTimeoutMs",
        ".leaseMs",
    ),
    Rule(
        "self.spread != 'Strict' || self.assignor in ['Sticky', 'Spread']",
        "spread: Strict requires the assignor Sticky or Spread: remove one of the two",
        ".spread",
    ),
    Rule(
        "self.policy == 'Default' || (self.assignor == 'Sticky' && self.spread == 'BestEffort')",
        "policy: Kip415 and Eager plan as Kafka's own leader does and ignore assignor and spread: remove "
        "these, or the policy",
        ".policy",
    ),
    Rule(
        "self.policy != 'Eager' || self.runtime != 'connect'",
        "policy: Eager requires members that stop their tasks before they join, and stock workers "
        "do so only by their own connect.protocol: use Default or Kip415",
        ".policy",
    ),
    Rule(
        "!has(self.protocol) || self.protocol != 'auto' || self.runtime == 'spark'",
        f"protocol: auto {NOT_WITH_STOCK}",
        ".protocol",
    ),
    Rule(
        "!has(self.protocol) || self.protocol != 'auto' || self.policy == 'Default'",
        f"protocol: auto {NOT_WITH_POLICIES}: remove one of the two",
        ".protocol",
    ),
    Rule(
        "!has(self.version) || !has(self.image) || !self.image.matches('@|:[^/]*$')",
        "image already has a tag or digest, so version conflicts with it: remove one of the two",
        ".version",
    ),
    Rule(
        "!has(self.checkpointVolume) || !has(self.checkpointLocation) || "
        "((self.checkpointLocation + '/').startsWith(self.checkpointVolume.mountPath + '/') && "
        r"!self.checkpointLocation.matches(r'(^|/)\.\.(/|$)'))",
        "checkpointLocation is not below checkpointVolume.mountPath, so that checkpoints would not "
        "be on the volume: remove one of the two, or use a directory on the volume",
        ".checkpointLocation",
    ),
)
