"""Worker: a pool of members that form one Kafka group."""

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from cooperator.crd.base import API_VERSION, Lenient, Model, ObjectMeta
from cooperator.crd.choices import (
    DEFAULT_PROTOCOL,
    DeletionPolicy,
    Fencing,
    GroupPolicy,
    GroupProtocol,
    Runtime,
    SchedulingPolicy,
    Spread,
)
from cooperator.crd.connect import Connect
from cooperator.crd.kafka import Kafka
from cooperator.crd.pod import (
    ALLOWED_LOCATION,
    ALLOWED_PATH,
    ENV_NAME,
    IMAGE,
    IMAGE_TAG,
    NODE_LABEL,
    CheckpointVolume,
    ImagePullPolicy,
    ObjectName,
    PodTemplate,
    Resources,
    has_version,
    unique,
)
from cooperator.crd.rules import LIGHTEST, NOT_WEIGHTLESS, Rule, unchanged
from cooperator.crd.runtimes import misplaced
from cooperator.crd.spark import Spark
from cooperator.crd.worker_parts import (
    ASSIGNOR,
    GROUP_ID,
    LOCATION,
    WORKER_NAME,
    Rest,
    Rollout,
    checked_servers,
)
from cooperator.crd.worker_rules import NOT_WITH_POLICIES, NOT_WITH_STOCK, ONE_RUNTIME, SPEC_RULES

_INT32_MAX: Final = 2_147_483_647
_DAY_MS: Final = 86_400_000


class WorkerSpec(Model):
    """The desired state of a Worker. Times are in milliseconds unless the name says otherwise."""

    model_config = ConfigDict(json_schema_extra=SPEC_RULES)

    replicas: int = Field(default=1, ge=0, le=1000, description="number of members in the pool")
    runtime: Annotated[
        Runtime,
        Lenient,
        unchanged("spec.runtime", ONE_RUNTIME),
    ] = Field(default=Runtime.SPARK, description="runtime of the members; fixed at creation")
    group_id: Annotated[str, GROUP_ID] | None = Field(
        default=None, description="group id in Kafka, fixed at creation; default cooperator-NAMESPACE.NAME"
    )
    group_policy: Annotated[GroupPolicy, Lenient] = Field(
        default=GroupPolicy.CREATE,
        description="Create refuses a group with foreign members or topics; Adopt takes it over",
    )
    bootstrap_servers: (
        Annotated[
            str,
            AfterValidator(checked_servers),
            Field(max_length=4096),
            Rule(
                "self.matches('^ *[^ ,]+:[0-9]{1,5} *(, *[^ ,]+:[0-9]{1,5} *)*$')",
                "use host:port, several separated by commas: host1:port1,host2:port2",
            ),
        ]
        | None
    ) = Field(
        default=None,
        description="Kafka's bootstrap servers, as host:port separated by commas; default: the host's broker",
    )
    policy: Annotated[SchedulingPolicy, Lenient] = Field(
        default=SchedulingPolicy.DEFAULT,
        description=(
            "Kip415 plans as Kafka's own leader does, for comparison; Eager, for benchmarks only, stops all "
            "tasks in every rebalance, as Kafka Connect did before KIP-415"
        ),
    )
    protocol: Annotated[GroupProtocol, Lenient] | None = Field(
        default=None,
        description=(
            "auto: the group reconciles tasks without rounds as soon as all its members can; sessioned: it "
            f"stays in rounds, as with runtime: connect and other policies than Default; default: "
            f"{DEFAULT_PROTOCOL}"
        ),
    )
    scheduled_rebalance_max_delay_ms: int = Field(
        default=300_000,
        ge=0,
        le=_INT32_MAX,
        description="how long tasks of a departed member wait for its return",
    )
    max_returns: int = Field(
        default=5,
        ge=0,
        le=1000,
        description=(
            "number of departures of a member per hour for which its tasks are held; after more, they move"
        ),
    )
    join_wait_ms: int = Field(
        default=30_000,
        ge=0,
        le=_DAY_MS,
        description="how long balancing waits for expected members",
    )
    assignor: Annotated[str, ASSIGNOR] = Field(
        default="Sticky",
        description="assignment strategy: Sticky, Spread, Uniform, or a plug-in's name",
    )
    spread: Annotated[Spread, Lenient] = Field(
        default=Spread.BEST_EFFORT,
        description="Strict keeps every connector's tasks within 1 over the members, at the cost of moves",
    )
    rollout: Rollout = Field(default_factory=Rollout, description="replacement of members")
    lease_ms: int = Field(
        default=40_000,
        ge=1,
        le=_DAY_MS,
        description="how long a member may run its tasks without contact with the group",
    )
    heartbeat_interval_ms: int = Field(
        default=3_000, ge=100, le=_DAY_MS, description="interval of the members' heartbeats to the broker"
    )
    session_timeout_ms: int = Field(
        default=10_000,
        ge=1_000,
        le=1_800_000,
        description="time without heartbeats after which the broker drops a member",
    )
    rebalance_timeout_ms: int = Field(
        default=30_000, ge=2_000, le=1_800_000, description="how long a round waits for members to join"
    )
    drain_timeout_ms: int = Field(
        default=60_000,
        ge=1_000,
        le=86_400_000,
        description="how long a leaving member may take to hand over its tasks",
    )
    revocation_timeout_ms: int = Field(
        default=60_000,
        ge=1_000,
        le=_DAY_MS,
        description="how long a revoked task may take to stop before its member's process is ended",
    )
    checkpoint_location: Annotated[str, LOCATION] | None = Field(
        default=None,
        description=(
            "directory of Spark's checkpoints, or s3a://bucket/path, accessible to all members; fixed at "
            "creation"
        ),
    )
    checkpoint_volume: CheckpointVolume | None = Field(
        default=None,
        description="a volume for Spark's checkpoints, mounted into all members; fixed at creation",
    )
    spark: Spark = Field(default_factory=Spark, description="configuration of the members' Spark")
    connect: Connect | None = Field(
        default=None, description="configuration of stock Kafka Connect workers (runtime: connect)"
    )
    fencing: Annotated[Fencing, Lenient] = Field(
        default=Fencing.STRICT,
        description="Strict: tasks of a stock worker that departs without proof of its end stay held",
    )
    deletion_policy: Annotated[DeletionPolicy, Lenient] = Field(
        default=DeletionPolicy.DELETE,
        description=(
            "Orphan: stock workers stay when the Worker is deleted, and lead their group themselves again"
        ),
    )
    rest: Rest = Field(default_factory=Rest, description="Kafka Connect's REST API in front of the group")
    kafka: Kafka = Field(default_factory=Kafka, description="security of the connections to Kafka")
    env_allowed: Annotated[
        tuple[Annotated[str, ENV_NAME], ...],
        Lenient,
        AfterValidator(unique),
    ] = Field(
        default=(),
        max_length=100,
        json_schema_extra={"x-kubernetes-list-type": "set"},
        description="environment variables of members that connectors may refer to with ${env:NAME}",
    )
    allowed_paths: Annotated[
        tuple[Annotated[str, Field(min_length=1), ALLOWED_LOCATION], ...],
        Lenient,
        AfterValidator(unique),
    ] = Field(
        default=(),
        max_length=100,
        json_schema_extra={"x-kubernetes-list-type": "set"},
        description=(
            "directories and URIs below which connectors may read and write files; default: files and "
            "stores (s3a, hdfs, gs and others), without the system's directories, such as /proc and /etc"
        ),
    )
    allowed_file_references: Annotated[
        tuple[Annotated[str, ALLOWED_PATH], ...],
        Lenient,
        AfterValidator(unique),
    ] = Field(
        default=(),
        max_length=100,
        json_schema_extra={"x-kubernetes-list-type": "set"},
        description="directories and files of members that connectors may refer to with ${file:PATH:KEY}",
    )
    capacity: Annotated[float, NOT_WEIGHTLESS] = Field(
        default=1.0,
        ge=LIGHTEST,
        le=1_000_000,
        description="capacity of one member relative to other members, in the unit of taskWeight",
    )
    image: Annotated[str, IMAGE] | None = Field(
        default=None, description="the members' image; default: the operator's"
    )
    version: Annotated[str, IMAGE_TAG] | None = Field(
        default=None, description="the image's tag; a change rolls the members"
    )
    image_pull_policy: Annotated[ImagePullPolicy, Lenient] = Field(
        default=ImagePullPolicy.IF_NOT_PRESENT, description="image pull policy"
    )
    image_pull_secrets: Annotated[tuple[ObjectName, ...], Lenient, AfterValidator(unique)] = Field(
        default=(),
        max_length=16,
        json_schema_extra={"x-kubernetes-list-type": "set"},
        description="Secrets for pulling the image",
    )
    service_account_name: ObjectName | None = Field(
        default=None, description="the members' ServiceAccount; default: the namespace's default"
    )
    resources: Resources = Field(default_factory=Resources, description="CPU and memory of each member")
    template: PodTemplate = Field(
        default_factory=PodTemplate, description="the user's part of the members' pods"
    )
    zone_label: Annotated[str, NODE_LABEL] = Field(
        default="topology.kubernetes.io/zone",
        description=(
            "node label over whose values members and each connector's tasks are spread; empty: no spreading"
        ),
    )
    pod_disruption_budget: bool = Field(
        default=True, description="whether evictions wait until the group is at rest (a PodDisruptionBudget)"
    )
    restart_nonce: str = Field(
        default="", max_length=253, description="any text; a change rolls all members once"
    )

    @property
    def is_stock(self) -> bool:
        """Whether members are stock Kafka Connect workers."""
        return self.runtime is Runtime.CONNECT

    @property
    def why_in_rounds(self) -> str:
        """Return why this spec keeps the group in rounds; empty if it leaves them once all members can."""
        if self.is_stock:
            return "stock workers know rounds only"
        if self.policy is not SchedulingPolicy.DEFAULT:
            return f"policy: {self.policy} is defined in rounds"
        if (self.protocol or DEFAULT_PROTOCOL) is GroupProtocol.AUTO:
            return ""
        return f"protocol: {GroupProtocol.SESSIONED}" + ("" if self.protocol else " is the default")

    @property
    def stock(self) -> Connect:
        """The configuration of stock workers, with defaults if the spec has none."""
        return self.connect or Connect()

    @property
    def checkpoint_root(self) -> str | None:
        """The checkpoints' root for all members: the location, else the volume; None without both."""
        if self.checkpoint_location is None and self.checkpoint_volume is not None:
            return self.checkpoint_volume.mount_path
        return self.checkpoint_location

    @model_validator(mode="after")
    def _one_runtime(self) -> "WorkerSpec":
        if message := misplaced(self, self.runtime):
            raise ValueError(message)
        return self

    @model_validator(mode="after")
    def _one_version(self) -> "WorkerSpec":
        if self.version is not None and self.image is not None and has_version(self.image):
            raise ValueError(
                f"image ({self.image}) already has a tag or digest, so version ({self.version}) conflicts "
                "with it: remove one of the two"
            )
        return self

    @model_validator(mode="after")
    def _checkpoints_on_the_volume(self) -> "WorkerSpec":
        volume, location = self.checkpoint_volume, self.checkpoint_location
        if volume is not None and location is not None and not volume.holds(location):
            raise ValueError(
                f"checkpointLocation ({location}) is not below checkpointVolume.mountPath "
                f"({volume.mount_path}), so that checkpoints would not be on the volume: remove one of the "
                "two, or use a directory on the volume"
            )
        return self

    @model_validator(mode="after")
    def _checkpoints_are_seen_by_executors(self) -> "WorkerSpec":
        root = self.checkpoint_root
        if not self.spark.on_kubernetes or self.spark.shapes_executors or self.checkpoint_volume is not None:
            return self
        if root is None or ("://" not in root and not self.template.mounts(root)):
            raise ValueError(
                f"checkpointLocation ({root or 'not set'}) is local to a member's pod, and executor pods of "
                f"spark.master ({self.spark.conf['spark.master']}) cannot reach it: set checkpointVolume, or "
                "use s3a://bucket/path, or mount a volume there in the template"
            )
        return self

    @model_validator(mode="after")
    def _times_in_order(self) -> "WorkerSpec":
        if 3 * self.heartbeat_interval_ms > self.session_timeout_ms:
            raise ValueError(
                f"heartbeatIntervalMs ({self.heartbeat_interval_ms}) is more than a third of "
                f"sessionTimeoutMs ({self.session_timeout_ms}): one late heartbeat would cost a member its "
                "tasks. Lower heartbeatIntervalMs or raise sessionTimeoutMs"
            )
        if self.is_stock:
            return self
        longest_silence_ms = self.rebalance_timeout_ms + self.heartbeat_interval_ms
        if self.lease_ms <= longest_silence_ms:
            raise ValueError(
                f"leaseMs ({self.lease_ms}) is not greater than rebalanceTimeoutMs + heartbeatIntervalMs "
                f"({longest_silence_ms}): members would stop their tasks in every slow round. Raise leaseMs "
                "or lower rebalanceTimeoutMs"
            )
        return self

    @model_validator(mode="after")
    def _leaves_rounds(self) -> "WorkerSpec":
        if self.protocol is GroupProtocol.AUTO and self.is_stock:
            raise ValueError(f"protocol: auto {NOT_WITH_STOCK}")
        if self.protocol is GroupProtocol.AUTO and self.policy is not SchedulingPolicy.DEFAULT:
            raise ValueError(f"protocol: auto {NOT_WITH_POLICIES}, not {self.policy}: remove one of the two")
        return self

    @model_validator(mode="after")
    def _one_planner(self) -> "WorkerSpec":
        if self.spread is Spread.STRICT and self.assignor not in ("Sticky", "Spread"):
            raise ValueError(
                f"spread: Strict requires the assignor Sticky or Spread, not {self.assignor}: remove one of "
                "the two"
            )
        if self.policy is not SchedulingPolicy.DEFAULT and (self.assignor, self.spread) != (
            "Sticky",
            Spread.BEST_EFFORT,
        ):
            raise ValueError(
                f"policy: {self.policy} plans as Kafka's own leader does and ignores assignor and spread: "
                "remove these, or the policy"
            )
        if self.policy is SchedulingPolicy.EAGER and self.runtime is Runtime.CONNECT:
            raise ValueError(
                "policy: Eager requires members that stop their tasks before they join, and stock workers "
                "do so only by their own connect.protocol: use Default or Kip415"
            )
        return self


class WorkerMeta(ObjectMeta):
    """Metadata with a name short enough for the names of pods."""

    name: Annotated[str, WORKER_NAME] = Field(description="name of the Worker; pods are named NAME-0, …")


class Worker(Model):
    """A pool of members that form one Kafka group and run its Connectors' tasks."""

    api_version: Literal["cooperator.dev/v1alpha1"] = Field(
        default=API_VERSION, description="the API's version"
    )
    kind: Literal["Worker"] = Field(default="Worker", description="the kind of resource")
    metadata: WorkerMeta = Field(description="name and namespace")
    spec: WorkerSpec = Field(default_factory=WorkerSpec, description="desired state of the pool")

    @property
    def group_id(self) -> str:
        """Group id in Kafka."""
        return self.spec.group_id or f"cooperator-{self.metadata.namespace}.{self.metadata.name}"
