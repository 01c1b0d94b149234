"""A Connector opens only paths that its Worker allows, and no topic of its Worker's group."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict

from cooperator.connectors import find, validate
from cooperator.connectors.bounds import STORES, allowed_options, is_allowed
from cooperator.connectors.options import OptionError
from cooperator.connectors.references import Resolver, own_topics

FILES = {"connector.class": "files-to-kafka", "path": "/data", "topic": "lines"}
COPY = {"connector.class": "kafka-to-kafka", "topics": "a", "topic": "b"}
SPARK = {"connector.class": "spark", "source.format": "text", "sink.format": "noop"}
KAFKA = {
    "connector.class": "spark",
    "source.format": "kafka",
    "source.options.subscribe": "a",
    "sink.format": "kafka",
}
ELSEWHERE = {
    **KAFKA,
    "source.options.kafka.bootstrap.servers": "b:1",
}
URL = "jdbc:postgresql://db:5432/shop"
TABLES = {"connector.class": "kafka-to-postgres", "topics": "a", "connection.url": URL}
FILES_OF_LIBPQ = ("sslcert", "sslkey", "sslrootcert")


def resolver(*allowed: str) -> Resolver:
    return Resolver({}, bootstrap_servers="b:1", allowed_paths=allowed, own_topics=own_topics("lake"))


def refused(config: dict[str, str], *allowed: str) -> str:
    with pytest.raises(OptionError) as error:
        allowed_options(find(config["connector.class"]).options, config, resolver(*allowed))
    return str(error.value)


@pytest.mark.parametrize(
    "config",
    [
        {**FILES, "path": "/proc/self"},
        {**FILES, "path": "/data/../etc"},
        {**SPARK, "source.options.path": "/proc/self/environ"},
        {**SPARK, "source.options.path": "file:///etc/passwd"},
        {**SPARK, "source.options.path": "/e*c/passwd"},
        {**SPARK, "source.options.path": "/data/{a/x,../etc}/*"},
        {**SPARK, "source.options.path": "/data/\\../etc/*"},
        {**SPARK, "source.options.path": "/"},
        {**SPARK, "source.options.path": "/data/\0"},
        {**SPARK, "source.options.path": "/data/\ud800"},
        {**SPARK, "sink.format": "json", "sink.options.path": "/run/secrets"},
        {**SPARK, "units": '[{"source.options.path": "/etc/passwd"}]'},
        {**ELSEWHERE, "source.options.kafka.ssl.keystore.location": "/etc/worker.p12"},
        {**ELSEWHERE, "source.options.Kafka.SSL.truststore.location": "/etc/worker.p12"},
        {**SPARK, "source.format": "xml", "source.options.rowValidationXSDPath": "/etc/passwd"},
        {**COPY, "ssl.ca.location": "/etc/shadow"},
        {**COPY, "ssl.certificate.location": "/etc/shadow", "ssl.key.location": "/tmp/key"},
        {**COPY, "ssl.certificate.location": "/tmp/c", "ssl.key.location": "/etc/shadow"},
        {"connector.class": "noop", "journal": "/etc/cron.d/x"},
        *({**TABLES, "connection.url": f"{URL}?{name}=/etc/shadow"} for name in FILES_OF_LIBPQ),
        {**TABLES, "connection.url": f"{URL}?sslmode=require&ssl%63ert=%2Fetc/shadow"},
        {**TABLES, "connection.url": f"{URL}?sslcert=/data/../etc/shadow"},
    ],
)
def test_no_option_opens_files_of_the_system_unless_the_worker_allows_it(config: dict[str, str]) -> None:
    assert "add its directory to spec.allowedPaths" in refused(config)


def test_with_allowed_paths_nothing_else_is_opened(tmp_path: Path) -> None:
    allowed, beside = tmp_path / "a", tmp_path / "ab"
    allowed.mkdir()
    beside.mkdir()
    (allowed / "link").symlink_to(beside)
    prefixes = (str(allowed), "s3a://lake/in")
    for path in (
        allowed,
        allowed / "new",
        "s3://lake/in/x",
        "s3a://lake/in",
        f"file://{allowed}/b",
        f"{allowed}/*",
    ):
        assert is_allowed(str(path), prefixes), path
    for path in (
        *(
            beside,
            allowed / "link",
            allowed / "link/x",
            allowed / "link/*",
            allowed / "../ab",
            f"{allowed}/*/../../ab",
        ),
        *(f"{allowed}/{{x,../../ab}}/*", f"{allowed}/\\../ab", f"{allowed}/{{a/..,..}}/../x"),
    ):
        assert not is_allowed(str(path), prefixes), path
    for uri in (
        "s3a://lake/input",
        "s3a://lake/in/../x",
        "s3a://other/in",
        "hdfs://lake/in",
        "s3a://lake/i*",
    ):
        assert not is_allowed(uri, prefixes), uri


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """A directory that may be opened, with links out of it and within it."""
    allowed, outside = tmp_path / "a", tmp_path / "ab"
    for directory in (allowed / "sub/own", outside / "in"):
        directory.mkdir(parents=True)
    for link, target in {
        "sub/link": outside / "in",
        "sub/relative": "../../ab",
        "sub/chain": allowed / "sub/link",
        "dangling": outside / "later/x",
        "within": allowed / "sub/own",
        "up": "..",
    }.items():
        (allowed / link).symlink_to(target)
    return allowed


@pytest.mark.parametrize("scheme", ["", "file:", "file://", "FILE:"])
@pytest.mark.parametrize(
    "path",
    [
        *("sub/link", "sub/link/in", "sub/link/new/and/deeper", "sub/relative/in/x", "sub/chain/x"),
        *("dangling", "dangling/new", "up/ab", "new/../sub/link/x", "within/../link/x"),
        # Hadoop reads a/sub/x and a/sub/own, the system ab/x and ab/own.
        *("sub/link/../x", "sub/link/../own", "within/../../up/new"),
    ],
)
def test_no_link_leads_out_of_an_allowed_directory_wherever_it_is_in_the_path(
    linked: Path, path: str, scheme: str
) -> None:
    assert not is_allowed(f"{scheme}{linked}/{path}", [str(linked)])
    assert "is not a path that the Worker allows" in refused(
        {**FILES, "path": f"{scheme}{linked}/{path}"}, str(linked)
    )


@pytest.mark.parametrize("path", ["within", "within/new/deeper", "within/../x", "sub/../within/x", "up/a/x"])
def test_links_within_an_allowed_directory_are_followed(linked: Path, path: str) -> None:
    assert is_allowed(f"{linked}/{path}", [str(linked)])


def test_dots_after_a_link_do_not_lead_into_the_systems_directories(tmp_path: Path) -> None:
    """Hadoop takes /var/run/../etc for /var/etc, and the system takes it for /etc."""
    (tmp_path / "link").symlink_to("/usr/lib")
    for path in (f"{tmp_path}/link/../../etc/passwd", f"{tmp_path}/link/../../proc/self/environ"):
        assert not is_allowed(path, ())
        assert "add its directory to spec.allowedPaths" in refused({**COPY, "ssl.ca.location": path})
    assert is_allowed(f"{tmp_path}/link/../share/ca.pem", ())


@given(
    st.from_regex(r"[a-zA-Z][a-zA-Z0-9+.-]{0,12}", fullmatch=True) | st.sampled_from(["webhdfs", "SWebHdfs"])
)
def test_only_known_stores_are_opened_unless_the_worker_allows_others(scheme: str) -> None:
    """Hadoop finds file systems by scheme, in every jar."""
    path = f"{scheme}://host/proc/self/environ"
    known = {"s3a": "s3", "s3n": "s3"}.get(scheme.lower(), scheme.lower()) in STORES - {"file"}
    assert is_allowed(path, ()) == known
    assert not is_allowed(path, ["/proc"])
    assert is_allowed(f"{path}/x", [path])
    if not known:
        config = {**SPARK, "source.options.path": f"{scheme}:///proc/self/environ"}
        assert "add its directory to spec.allowedPaths" in refused(config)


@pytest.mark.parametrize("path", ["har:///data/a.har", "HAR://file-localhost/data/a.har", "viewfs:/data"])
def test_a_file_system_that_opens_files_of_another_needs_the_workers_permission(path: str) -> None:
    """The index of an archive may name ../../etc/passwd."""
    assert not is_allowed(path, ())
    assert not is_allowed(path, ["/data"])
    assert is_allowed(f"{path}/x", [path])


@pytest.mark.parametrize(
    "config",
    [
        {**COPY, "topics": "a,lake-leader"},
        {**COPY, "topic": "lake-configs"},
        {**FILES, "topic": "lake-batches"},
        {**KAFKA, "source.options.subscribe": "a, lake-status"},
        {**KAFKA, "source.options.subscribe": "", "source.options.assign": '{"lake-leader": [0]}'},
        {**KAFKA, "source.options.subscribe": "a,\x01lake-status"},
        {**KAFKA, "source.options.subscribe": "a", "sink.options.topic": "lake-leader"},
        {**KAFKA, "units": '[{"sink.options.Topic": "lake-leader"}]'},
    ],
)
def test_the_topics_of_the_group_are_no_source_and_no_target(config: dict[str, str]) -> None:
    assert "a topic of the Worker's own group" in refused(config)


def test_no_option_sends_the_keys_of_the_workers_store_to_another_server() -> None:
    config = {
        **SPARK,
        "source.options.path": "s3a://lake/in",
        "source.options.fs.s3a.endpoint": "http://evil",
    }
    assert "set it in spec.spark.conf of the Worker" in refused(config)
    units = '[{"sink.options.FS.s3a.bucket.lake.endpoint": "http://evil"}]'
    assert "could send their keys to another server" in refused({**SPARK, "units": units})


def test_kafkas_client_reads_nothing_of_the_member() -> None:
    providers = {**KAFKA, "source.options.kafka.config.providers": "env", "source.options.subscribe": "a"}
    assert "may load classes, run programs or read files of the member" in refused(providers)
    escaped = {**KAFKA, "units": r'[{"source.options.kafka.client.id": "$\u007benv:AWS\u007d"}]'}
    assert "has an escaped reference" in refused(escaped)


@pytest.mark.parametrize(
    "name",
    [
        *("interceptor.classes", "metric.reporters", "partition.assignment.strategy", "key.deserializer"),
        *("sasl.kerberos.kinit.cmd", "sasl.login.class", "sasl.login.callback.handler.class"),
        *("sasl.client.callback.handler.class", "sasl.oauthbearer.token.endpoint.url"),
        *("sasl.oauthbearer.jwks.endpoint.url", "sasl.oauthbearer.assertion.private.key.file"),
        *("ssl.engine.factory.class", "ssl.provider", "security.providers", "Config.Providers.x.class"),
    ],
)
def test_kafkas_client_loads_no_class_and_runs_no_program_of_a_connectors_choice(name: str) -> None:
    for side in ("source", "sink"):
        config = {**ELSEWHERE, f"{side}.options.kafka.bootstrap.servers": "b:1"}
        assert "may load classes, run programs" in refused({**config, f"{side}.options.Kafka.{name}": "x"})


PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
KRB5 = "com.sun.security.auth.module.Krb5LoginModule required"


@pytest.mark.parametrize(
    "login",
    [
        "com.sun.security.auth.module.JndiLoginModule required user.provider.url='ldap://evil';",
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
        f"{PLAIN}; {KRB5};",
        f"{PLAIN} username=a; /* {SCRAM} */",
        f"{PLAIN} username=a // x\n keyTab=/etc/krb5.keytab;",
        f"{KRB5} useKeyTab=true;",
        f"{KRB5} useTicketCache=true;",
        f'{KRB5} useKeyTab=true keyTab="/etc/krb5.keytab" principal="a@B";',
        f'{KRB5} useKeyTab=true keyTab="FILE:/etc/krb5.keytab";',
        f"{KRB5} useKeyTab=true KEYTAB='relative.keytab';",
        f'{KRB5} useKeyTab=true keyTab="\\57etc/krb5.keytab";',
        f"{KRB5} useTicketCache=true ticketCache='/run/krb5cc';",
        "",
    ],
)
def test_a_login_opens_no_file_of_the_system_and_loads_no_other_module(login: str) -> None:
    said = refused({**ELSEWHERE, "source.options.kafka.sasl.jaas.config": login})
    assert "option 'source.options.kafka.sasl.jaas.config': " in said, "the value is not shown"


@pytest.mark.parametrize(
    "login",
    [
        f'{PLAIN} username="a" password="b\\"; c";',
        f"{SCRAM} username='a' password='b' tokenauth=true;",
        f'{KRB5} useKeyTab=true storeKey=true keyTab="/data/a.keytab" principal="a/b@C";',
    ],
)
def test_a_login_with_name_and_password_or_an_allowed_file_is_accepted(login: str) -> None:
    config = {**ELSEWHERE, "source.options.kafka.sasl.jaas.config": login}
    allowed_options(find("spark").options, config, resolver())


@pytest.mark.parametrize(
    "name", ["ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "journal"]
)
def test_relative_paths_of_files_are_refused(name: str) -> None:
    config = {"connector.class": "noop"} if name == "journal" else COPY
    assert "is relative; write an absolute path" in refused({**config, name: "own.pem"})


@pytest.mark.parametrize(
    ("parameter", "said"),
    [
        *((f"{name}=x", "may not set") for name in ("passfile", "service", "servicefile", "options", "host")),
        *((f"{name}=x", "may not set") for name in ("hostaddr", "port", "dbname", "sslpassword", "gsslib")),
        *(
            (f"{name}=x", "may not set")
            for name in ("sslkeylogfile", "gssdelegation", "requirepeer", "sslcrl")
        ),
        *(
            (f"{name}=x", "may not set")
            for name in ("oauth_issuer", "replication", "pass%66ile", "loginTimeout")
        ),
        *((f"{name}=own.pem", "relative path of a file") for name in FILES_OF_LIBPQ),
        ("sslkey=engine:key", "relative path of a file"),
        ("sslcert=system", "relative path of a file"),
        ("sslmode=require#&sslcert=/etc/shadow", "has the character '#'"),
    ],
)
def test_a_databases_url_has_listed_parameters_only(parameter: str, said: str) -> None:
    config = {**TABLES, "connection.url": f"{URL}?{parameter}"}
    assert said in refused(config)
    assert said in str(validate("kafka-to-postgres", config)[0]), "also where it is applied"


def test_a_databases_url_names_no_socket_of_the_member() -> None:
    for host in ("%2Frun%2Fpostgresql", "%40abstract"):
        assert "names a socket" in refused({**TABLES, "connection.url": f"postgresql://{host}/shop"})


TEXT = "ab:/?#@&=%+,.[]5 "


@given(
    st.sampled_from(["h/d", "a@h/d", "a?b@h/d", "h:1/d", "h", "[::1]/d"]) | st.text(TEXT, max_size=12),
    st.text(TEXT, max_size=6),
    st.sampled_from(
        ["sslmode=disable", "sslcert=/etc/x", "passfile=/etc/x", "host=/run/x", "service=x", "options=-cx"]
    ),
    st.text(TEXT, max_size=6),
)
def test_no_url_is_read_by_the_client_as_something_that_was_not_checked(
    address: str, before: str, parameter: str, after: str
) -> None:
    url = f"postgresql://{address}?{before}{parameter}{after}"
    try:
        allowed_options(find("kafka-to-postgres").options, {**TABLES, "connection.url": url}, resolver())
    except OptionError:
        return
    found = conninfo_to_dict(url)
    assert not found.keys() & {"passfile", "service", "options"}
    assert not str(found["host"]).startswith(("/", "@"))
    assert not str(found.get("sslcert", "")).startswith("/etc")


@pytest.mark.parametrize(
    "parameter", ["sslmode=verify-full&sslrootcert=system", "sslrootcert=/data/ca.pem", ""]
)
def test_a_databases_certificates_may_be_allowed_files(parameter: str) -> None:
    config = {**TABLES, "connection.url": f"{URL}?{parameter}"}
    allowed_options(find("kafka-to-postgres").options, config, resolver("/data"))
    if "/data" in parameter:
        assert "add its directory to spec.allowedPaths" in refused(config, "/other")


def test_settings_of_hadoops_clients_are_the_workers() -> None:
    for name in ("hadoop.security.credential.provider.path", "dfs.x", "io.x", "ipc.x", "FS.x"):
        config = {**SPARK, f"source.options.{name}": "jceks://file/etc/x"}
        assert "set it in spec.spark.conf of the Worker" in refused(config)


@pytest.mark.parametrize("side", ["source", "sink"])
def test_a_format_that_is_a_class_is_refused(side: str) -> None:
    config = {**KAFKA, f"{side}.format": "org.apache.spark.sql.kafka010.KafkaSourceProvider"}
    assert "is the name of a class; write a format's short name" in refused(config)


def test_files_of_formats_that_spark_has_beside_sources_are_paths() -> None:
    assert "is relative" in refused({**SPARK, "source.format": "libsvm", "source.options.path": "../x"})


SEGMENTS = st.lists(
    st.sampled_from(
        ["..", ".", "a", "ab", "*", "{a,..}", "{a/..", "..}", "\\..", "{", ",..", "", "etc", "[a]"]
    ),
    max_size=8,
)


@given(SEGMENTS, st.sampled_from(["/nowhere/a/", "file:///nowhere/a/", "file:/nowhere/a/", "//nowhere/a/"]))
def test_an_allowed_path_is_below_one_that_the_worker_allows(parts: list[str], root: str) -> None:
    path = root + "/".join(parts)
    if is_allowed(path, ["/nowhere/a"]):
        below = [part for part in parts if part not in ("", ".")]
        depth = 0
        for part in below:
            depth += -1 if part == ".." else 1
        assert depth >= 0
