"""Wrong specs and their error texts, from ``cooperator local`` and from an API server."""

from dataclasses import dataclass
from typing import Any

from cooperator.crd.owned import OWNED

SASL = {"mechanism": "PLAIN", "secretRef": {"name": "user"}}
ENDPOINT = {"tokenEndpointUrl": "https://idp.example/token"}
PROJECTED = {"serviceAccountToken": {"audience": "kafka"}}


def _oauth(source: dict[str, Any] | None) -> dict[str, Any]:
    """``spec.kafka`` with client id and client secret."""
    sasl = {"mechanism": "OAUTHBEARER", "secretRef": {"name": "client"}}
    return {
        "securityProtocol": "SASL_SSL",
        "sasl": sasl if source is None else {**sasl, "oauthbearer": source},
    }


def _worker_with(**fields: Any) -> dict[str, Any]:
    """A template's spec for the member's container."""
    return {"containers": [{"name": "worker", **fields}]}


LABEL = "[a-z0-9]"


@dataclass(frozen=True)
class Refused:
    """``said`` is a regular expression for our error. ``by_server`` is one for the API server's error; None
    means the same words, an empty text means that the server accepts it and the operator reports it in a
    condition."""

    kind: str
    spec: dict[str, Any]
    field: str
    said: str
    by_server: str | None = None

    def __str__(self) -> str:
        return f"{self.field}-{self.said[:30]}"

    @property
    def server_says(self) -> str:
        return self.said if self.by_server is None else self.by_server


def of_worker(field: str, value: object, said: str, by_server: str | None = None) -> Refused:
    """A Worker with one wrong field at the first level of its spec; the error names it or a field below
    it."""
    return Refused("Worker", {field: value}, f"spec.{field}", said, by_server)


def together(said: str, by_server: str | None = None, **spec: object) -> Refused:
    """A Worker whose fields contradict each other."""
    return Refused("Worker", spec, "spec", said, by_server)


def stock(field: str, value: object, said: str, by_server: str | None = None) -> Refused:
    """A Worker of stock workers with one wrong field of ``connect``."""
    spec = {"runtime": "connect", "connect": {field: value}}
    return Refused("Worker", spec, f"spec.connect.{field}", said, by_server)


def of_connector(field: str, value: object, said: str, by_server: str | None = None) -> Refused:
    spec = {"workerRef": {"name": "lake"}, "class": "noop", field: value}
    return Refused("Connector", spec, f"spec.{field}", said, by_server)


WHOLE = "must be of type integer"
TEXT = "must be of type string"

STOCK = [
    *(
        stock("config", {name: "x"}, rf"{name.replace('.', '[.]')}'?,? (which )?is set by .*: remove it")
        for name in OWNED
    ),
    stock("config", {"connect.protocol": "eager"}, "every round would stop all tasks"),
    stock("config", {"config.providers.cooperator.class": "a"}, "which is set by the operator", ""),
    stock("config", {"a": [1]}, "must be text, a number or true/false", ""),
    stock("jvmOptions", ["-a -b"], "use one JVM option"),
    stock("jvmOptions", ["-Xmx2g"], r"set by spec\.connect\.heapMb: remove -Xmx"),
    stock("jvmOptions", ["-a", "-a"], "has '-a' twice", 'Duplicate value: "-a"'),
    stock("pluginPath", ["plugins"], "use an absolute path"),
    stock("logLevels", {"root": "LOUD"}, "must be 'TRACE', 'DEBUG'", 'supported values: "TRACE"'),
    stock("logLevels", {"a b": "INFO"}, "use the name of a logger", ""),
    stock("metrics", {"jmxPort": 80}, "must be at least 1024", "greater than or equal to 1024"),
    stock("metrics", {"javaAgent": "agent.jar"}, "use the path of a .jar in the image"),
    stock("topics", {"config": "a b"}, "use a topic name"),
    stock("command", "connect.sh", "use an absolute path"),
    stock("heapMb", 1, "must be at least 64", "greater than or equal to 64"),
    stock("hungAfterMs", -1, "must be at least 0", "greater than or equal to 0"),
    *(
        together(f"{field} is for runtime: spark; .*remove it", runtime="connect", **{field: value})
        for field, value in {
            "checkpointLocation": "/a",
            "checkpointVolume": {"claimName": "c"},
            "spark": {"heapMb": 2048},
            "envAllowed": ["A"],
            "allowedFileReferences": ["/etc/secrets"],
            "allowedPaths": ["/data"],
            "capacity": 2,
            "leaseMs": 50_000,
        }.items()
    ),
    together("spark is for runtime: spark", runtime="connect", spark={"packages": ["a:b:1"]}),
    *(
        together(f"{field} is for runtime: connect; .*remove it", **{field: value})
        for field, value in {"connect": {}, "fencing": "BestEffort", "deletionPolicy": "Orphan"}.items()
    ),
]
REFUSED = [
    of_worker("replicas", "three", "must be a whole number", WHOLE),
    of_worker("replicas", 1.5, "must be a whole number", WHOLE),
    of_worker("replicas", -1, "must be at least 0", "greater than or equal to 0"),
    of_worker("replicas", 5000, "must be at most 1000", "less than or equal to 1000"),
    of_worker("runtime", "flink", "must be 'spark' or 'connect'", 'supported values: "spark", "connect"'),
    of_worker(
        "policy",
        "eager",
        "must be 'Default', 'Kip415' or 'Eager'",
        'supported values: "Default", "Kip415", "Eager"',
    ),
    of_worker(
        "protocol",
        "reconciled",
        "must be 'auto' or 'sessioned'",
        'supported values: "auto", "sessioned"',
    ),
    together(
        "protocol: auto is for runtime: spark; .*remove it, or use sessioned",
        runtime="connect",
        protocol="auto",
    ),
    *(
        together(
            "protocol: auto requires policy: Default; .*remove one of the two", policy=policy, protocol="auto"
        )
        for policy in ("Kip415", "Eager")
    ),
    of_worker("groupId", "my group", "use 1 to 200 letters"),
    of_worker("groupId", "g" * 201, "use 1 to 200 letters", "may not be more than 200 bytes"),
    of_worker("bootstrapServers", "kafka", "host1:port1,host2:port2"),
    of_worker("bootstrapServers", "a:1,b", "host1:port1,host2:port2"),
    of_worker("assignor", "two words", "use an assignor: Sticky, Spread, Uniform"),
    of_worker("checkpointLocation", "", "write a directory such as /a/directory, or s3a"),
    of_worker("spark", {"packages": ["spark-avro"]}, "write group:artifact:version"),
    of_worker("spark", {"jars": ["s3://a/b.jar"]}, "full path of a .jar file"),
    of_worker("spark", {"conf": {"spark.jars.packages": "a:b:1"}}, "spark.packages instead", ""),
    of_worker(
        "spark",
        {"conf": {"spark.submit.deployMode": "cluster"}},
        "deployMode is 'cluster', but a member is itself the driver of its queries: remove it",
        "",
    ),
    together(
        r"checkpointLocation \(not set\) is local to a member's pod.*\(k8s://a\).*set checkpointVolume",
        "",
        spark={"conf": {"spark.master": "k8s://a"}},
    ),
    together(
        r"checkpointLocation \(/progress\) is local to a member's pod.*mount a volume there in the template",
        "",
        spark={"conf": {"spark.master": "k8s://a"}},
        checkpointLocation="/progress",
        template={
            "spec": {
                "containers": [{"name": "worker", "volumeMounts": [{"name": "a", "mountPath": "/prog"}]}]
            }
        },
    ),
    *(
        of_worker("checkpointLocation", location, "write a directory such as /a/directory, or s3a")
        for location in ("hdfs://name-node/a", "s3://b/c", "file:///a", "s3a://", "s3a:///a")
    ),
    of_worker("checkpointLocation", " /a", "write a directory such as /a/directory, or s3a"),
    of_worker("rollout", {"strategy": "Surge"}, "must be 'Hold' or 'Drain'", 'supported values: "Hold"'),
    of_worker("rollout", {"maxUnavailable": 0}, "must be at least 1", "greater than or equal to 1"),
    of_worker("spark", {"heapMb": 10}, "must be at least 256", "greater than or equal to 256"),
    of_worker("spark", {"conf": {"a": [1]}}, "must be text, a number or true/false", ""),
    of_worker("capacity", 0, "must be at least 0.001"),
    of_worker("image", "a b", "use the name of an image, such as"),
    of_worker("version", "1.0/x", "use an image tag"),
    of_worker("imagePullPolicy", "Sometimes", "'IfNotPresent' or 'Never'", 'supported values: "Always"'),
    of_worker("imagePullSecrets", ["A_b"], "use 1 to 253 lower-case"),
    of_worker("imagePullSecrets", ["a", "a"], "has 'a' twice: remove one", 'Duplicate value: "a"'),
    of_worker("serviceAccountName", "a..b", "use 1 to 253 lower-case"),
    of_worker("resources", {"requests": {"cpu": 0.5}}, "a fraction in quotes", "integer,string"),
    of_worker("resources", {"limits": {"memory": "2 GB"}}, "a quantity such as 500m"),
    of_worker("resources", {"limits": {"memory": True}}, "must be a quantity", "integer,string"),
    of_worker("resources", {"limits": {"a b": 1}}, "has 'a b': use a resource", ""),
    of_worker("envAllowed", ["1A"], "use the name of an environment variable"),
    of_worker("envAllowed", [7], "must be text", TEXT),
    of_worker("envAllowed", ["A", "A"], "has 'A' twice", 'Duplicate value: "A"'),
    of_worker(
        "envAllowed", [f"A{n}" for n in range(101)], "more than 100 entries: remove some", "at most 100 items"
    ),
    of_worker("allowedPaths", ["s3a://lake/../x"], "use an absolute path, or a URI"),
    of_worker("allowedFileReferences", ["/"], "use an absolute path below /"),
    of_worker("allowedFileReferences", ["/etc/../proc"], "use an absolute path below /"),
    of_worker("allowedFileReferences", ["secrets"], "use an absolute path below /"),
    of_worker("zoneLabel", "a b", "use a label, such as"),
    of_worker("restartNonce", "x" * 254, "at most 253 characters long", "may not be more than 253 bytes"),
    of_worker("checkpointVolume", {}, r"claimName is missing: add it", r"claimName: Required value"),
    of_worker("checkpointVolume", {"claimName": "c", "mountPath": "a/b"}, "use an absolute path"),
    of_worker("checkpointVolume", {"claimName": "c", "mountPath": "/a/.."}, "use an absolute path"),
    of_worker("checkpointVolume", {"claimName": "c", "mountPath": "/a/"}, "use an absolute path"),
    of_worker("template", {"metadata": {"labels": {"a": "b c"}}}, "which is not a valid label", ""),
    of_worker(
        "template", {"metadata": {"labels": {"cooperator.dev/x": ""}}}, "are reserved for the operator"
    ),
    of_worker(
        "template", {"metadata": {"annotations": {"cooperator.dev/x": ""}}}, "are reserved for the operator"
    ),
    of_worker("template", {"spec": {"containers": {}}}, "containers is not a list", "must be of type array"),
    of_worker(
        "template",
        {"spec": {"containers": [{"image": "a"}]}},
        "an entry without a name",
        "name: Required value",
    ),
    of_worker(
        "template", {"spec": {"containers": [{"name": "log"}]}}, "add it, or name the container 'worker'"
    ),
    of_worker(
        "template",
        {"spec": {"containers": [{"name": "a", "image": "i"}] * 2}},
        r"containers\[0\] and containers\[1\] have the same name 'a': keep one",
        "Duplicate value",
    ),
    *(
        of_worker("template", {"spec": spec}, said, by_server)
        for spec, said, by_server in (
            (
                _worker_with(
                    volumeMounts=[{"name": "a", "mountPath": "/x"}, {"name": "b", "mountPath": "/x"}]
                ),
                r"containers\[0\].volumeMounts\[0\] and .*\[1\] have the same mountPath '/x': keep one",
                r"containers\[0\].volumeMounts\[1\]: Duplicate value",
            ),
            (
                _worker_with(volumeMounts=[{"name": "a"}]),
                r"volumeMounts\[0\] has no mountPath, by which the entries are merged: add it",
                r"volumeMounts\[0\].mountPath: Required value",
            ),
            (
                _worker_with(env=[{"name": "A"}, {"name": "B"}, {"name": "A", "value": "1"}]),
                r"env\[0\] and containers\[0\].env\[2\] have the same name 'A': keep one",
                r"env\[2\]: Duplicate value",
            ),
            (
                _worker_with(env=["A=1"]),
                r"env\[0\] is no mapping: write one with name",
                "env\\[0\\].* must be of type object",
            ),
            (
                # The server would write the default of the protocol into the template.
                _worker_with(ports=[{"containerPort": 1}, {"containerPort": 1, "protocol": "TCP"}]),
                "ports.* have the same containerPort 1 and protocol 'TCP': keep one",
                "",
            ),
            (
                {"volumes": [{"name": "a"}, {"name": "a", "emptyDir": {}}]},
                r"volumes\[0\] and volumes\[1\] have the same name 'a': keep one",
                r"volumes\[1\]: Duplicate value",
            ),
            (
                {"hostAliases": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.1"}]},
                "hostAliases.* have the same ip '10.0.0.1': keep one",
                r"hostAliases\[1\]: Duplicate value",
            ),
            (
                {
                    "topologySpreadConstraints": [
                        {"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": skew}
                        for skew in (1, 2)
                    ]
                },
                "have the same topologyKey 'zone' and whenUnsatisfiable 'DoNotSchedule': keep one",
                r"topologySpreadConstraints\[1\]: Duplicate value",
            ),
        )
    ),
    *(
        of_worker(
            "template",
            {"spec": {"containers": [{"name": "worker", field: value}]}},
            rf"{field} (in|of) the container 'worker'.* is set by .*remove it from the template",
        )
        for field, value in (
            ("image", "other"),
            ("imagePullPolicy", "Always"),
            ("resources", {"limits": {"cpu": 1}}),
            ("command", ["sh"]),
            ("args", ["-c"]),
        )
    ),
    *(
        of_worker("template", {"spec": {field: value}}, rf"{field},? (which )?is set by .*: remove it")
        for field, value in (
            ("terminationGracePeriodSeconds", 5),
            ("serviceAccountName", "a"),
            ("imagePullSecrets", [{"name": "a"}]),
            ("restartPolicy", "Never"),
            ("hostname", "a"),
            ("subdomain", "a"),
        )
    ),
    of_worker(
        "kafka",
        {"securityProtocol": "SASL_SSL"},
        r"requires a user name and a password: add sasl: \{mechanism",
    ),
    of_worker("kafka", {"securityProtocol": "SSL", "sasl": SASL}, r"does not use a password: remove sasl"),
    of_worker("kafka", {"sasl": SASL}, r"does not use a password: remove sasl"),
    of_worker("kafka", {"tls": {}}, r"does not encrypt: remove tls"),
    of_worker("kafka", {"securityProtocol": "SASL_PLAINTEXT", "sasl": SASL, "tls": {}}, "remove tls"),
    of_worker("kafka", {"sasl": {**SASL, "passwordKey": "a b"}}, "use a key of the Secret"),
    of_worker("kafka", _oauth(None), "requires a source of tokens: add oauthbearer", "belong together"),
    of_worker("kafka", _oauth({}), "set either tokenEndpointUrl or serviceAccountToken"),
    of_worker(
        "kafka", _oauth({**ENDPOINT, **PROJECTED}), "set either tokenEndpointUrl or serviceAccountToken"
    ),
    of_worker("kafka", _oauth(PROJECTED), "secretRef is not used with", "remove it with oauthbearer"),
    of_worker("kafka", _oauth({**PROJECTED, "scope": "a"}), "apply to tokenEndpointUrl only: remove them"),
    of_worker(
        "kafka",
        {"securityProtocol": "SASL_SSL", "sasl": {"mechanism": "OAUTHBEARER", "oauthbearer": ENDPOINT}},
        "secretRef is missing: name a Secret with client id and client secret",
        "requires a Secret",
    ),
    of_worker(
        "kafka",
        {"securityProtocol": "SASL_SSL", "sasl": {**SASL, "oauthbearer": ENDPOINT}},
        "mechanism PLAIN uses a password: remove it",
        "belong together",
    ),
    of_worker("kafka", _oauth({"tokenEndpointUrl": "idp.example/token"}), "use https://HOST/PATH"),
    of_worker("kafka", _oauth({"tokenEndpointUrl": "https://a:b@idp.example"}), "without a user name"),
    together(r"one late heartbeat would cost a member its tasks", heartbeatIntervalMs=4_000),
    together(r"Raise leaseMs or lower rebalanceTimeoutMs", leaseMs=33_000),
    together(r"spread: Strict requires the assignor Sticky or Spread", assignor="Uniform", spread="Strict"),
    together(r"as Kafka's own leader does", policy="Kip415", assignor="Uniform"),
    together(r"as Kafka's own leader does", policy="Kip415", spread="Strict"),
    together(r"as Kafka's own leader does", policy="Eager", spread="Strict"),
    together(r"stop their tasks before they join", policy="Eager", runtime="connect"),
    together(r"already has a tag or digest.*remove", image="a:1", version="2"),
    together(r"already has a tag or digest.*remove", image="r:5000/a@sha256:0", version="2"),
    *(
        together(
            r"is not below checkpointVolume\.mountPath",
            checkpointVolume={"claimName": "c"},
            checkpointLocation=location,
        )
        for location in ("/checkpoints-2", "/checkpoints/../a", "s3a://b/c", "/")
    ),
    *STOCK,
    of_connector("workerRef", {}, "name is missing: add it", "name: Required value"),
    of_connector("workerRef", {"name": "A"}, "use 1 to 253 lower-case"),
    of_connector("class", "two words", "use the name of a connector class"),
    of_connector("class", "", "use the name of a connector class"),
    of_connector("tasksMax", 0, "must be at least 1", "greater than or equal to 1"),
    of_connector("taskWeight", 0, "must be at least 0.001"),
    of_connector("state", "Started", "must be 'Running', 'Paused' or 'Stopped'", "supported values"),
    of_connector("config", {"tasks.max": "3"}, r"set by spec\.tasksMax.*remove it from the config"),
    of_connector("config", {"name": "a"}, r"set by metadata\.name.*remove it from the config"),
    of_connector("config", {"connector.class": "a"}, r"set by spec\.class.*remove it from the config"),
    of_connector("config", {"cooperator.x": "1"}, "are reserved for fields of the spec", ""),
    of_connector(
        "config", {"a": "\u00e9" * 100_000}, "600,003 bytes as JSON.*in 'a'.*keep large values in", ""
    ),
    of_connector("config", {f"a{n}": "x" * 1_000 for n in range(999)}, "at most 400,000 fit", ""),
    of_connector("config", {"a": [1]}, "must be text, a number or true/false", ""),
    of_connector("config", {"a": {"b": 1}}, "must be text, a number or true/false", ""),
    of_connector("connectorName", "", "without control characters"),
    of_connector("connectorName", "a\nb", "without control characters"),
    of_connector("connectorName", "a\x7f", "without control characters"),
    of_connector("deletionPolicy", "Keep", "must be 'Delete' or 'Orphan'", "supported values"),
    of_connector("autoRestart", {"backoffMs": 400_000}, "exceeds? backoffMaxMs|must not exceed backoffMaxMs"),
    of_connector("autoRestart", {"maxRestarts": -1}, "must be at least 0", "greater than or equal to 0"),
    of_connector("stateReplicas", {"standbys": 6}, "must be at most 5", "less than or equal to 5"),
    of_connector("stateReplicas", {"standbys": "one"}, "must be a whole number", WHOLE),
    of_connector("stateReplicas", {"maxWarmups": 0}, "must be at least 1", "greater than or equal to 1"),
    of_connector("stateReplicas", {"acceptableLagBytes": -1}, "at least 0", "greater than or equal to 0"),
    of_connector("stateReplicas", {"warmupTimeoutMs": 10}, "at least 1000", "greater than or equal to 1000"),
    of_connector("stateReplicas", True, "must be a mapping", "must be of type object"),
]
