"""Targets of events other than webhooks: each kind at a real server, also over its restart, and what is wrong with it."""

from __future__ import annotations

import json
import shutil
import threading
import urllib.parse

import pytest
from support.boto import boto_of
from support.server import Demo, Server, wait_until
from support.services import PASSWORD, USER, Kafka, Nats, Postgres, Rabbit, Redis
from support.unchanged import Admin

pytestmark = pytest.mark.process

WRONG = "a-password-that-is-wrong"
TOPIC = "uploads"
WAIT_S = 60
# The order in which rows were stored: each event is a transaction of its own, and they are numbered. Not the place in
# the table (ctid): a small row goes into a gap that larger ones before it left.
STORED = "ORDER BY xmin::text::bigint"
PAIRS = [f"pair-{number}" for number in range(8)]


@pytest.fixture(scope="module")
def services(tmp_path_factory):
    """All servers, and further ones where one speaks either TLS or not. Kafka is missing without Go."""
    made = {
        "redis": Redis(),
        "postgresql": Postgres(),
        "amqp": Rabbit(),
        "nats": Nats(),
        "nats-tls": Nats(tls=True),
    }
    if shutil.which("go"):
        broker = Kafka.build(tmp_path_factory.mktemp("kafka"))
        made |= {"kafka": Kafka(broker, TOPIC), "kafka-tls": Kafka(broker, TOPIC, tls=True)}
    starts = [threading.Thread(target=service.start) for service in made.values()]
    for start in starts:
        start.start()
    for start in starts:
        start.join()
    yield made
    for service in made.values():
        service.remove()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, services):
    """Three nodes that know good and bad targets of all kinds."""
    folder = tmp_path_factory.mktemp("targets")

    def secret(name: str, text: str) -> str:
        path = folder / name
        path.write_text(text + "\n")
        path.chmod(0o600)
        return str(path)

    login = {"user": USER, "password_file": secret("right", PASSWORD)}
    wrong = {"user": USER, "password_file": secret("wrong", WRONG)}
    at = {name: f"127.0.0.1:{service.port}" for name, service in services.items()}
    tls_at = {name: f"127.0.0.1:{service.tls_port}" for name, service in services.items()}

    def ca(name: str) -> dict[str, str]:
        return {"ca_file": str(services[name].certificate)}

    redis, database = f"redis://{at['redis']}/1", f"postgres://{at['postgresql']}/postgres"
    amqp, nats = f"amqp://{at['amqp']}", f"nats://{at['nats']}"
    rediss, amqps = f"rediss://{tls_at['redis']}/0", f"amqps://{tls_at['amqp']}"
    targets = {
        "stream": {"url": redis, **login},
        "list": {"url": f"redis://{at['redis']}", "list": "uploads", "password_file": login["password_file"]},
        "channel": {"url": redis, "channel": "uploads", **login},
        "redis-wrong": {"url": redis, **wrong},
        "redis-type": {"url": redis, "list": "archipel-events", **login},
        "redis-tls": {"url": rediss, "stream": "secure", **login, **ca("redis")},
        "redis-untrusted": {"url": rediss, **login},
        "redis-name": {"url": f"rediss://localhost:{services['redis'].tls_port}", **login, **ca("redis")},
        "table": {"url": database, **login},
        "table-wrong": {"url": database, **wrong},
        "table-none": {"url": database, "table": "no_schema.events", **login},
        "table-columns": {"url": database, "table": "other_columns", **login},
        "table-tls": {"url": database, "table": "public.Secure", "tls": True, **login, **ca("postgresql")},
        "table-untrusted": {"url": database, "tls": True, **login},
        "queue": {"url": amqp, "routing_key": "uploads", **login},
        "exchange": {"url": f"{amqp}/%2F", "exchange": "events", "routing_key": "a.b", **login},
        "amqp-wrong": {"url": amqp, "routing_key": "uploads", **wrong},
        "exchange-none": {"url": amqp, "exchange": "none", **login},
        "queue-none": {"url": amqp, "routing_key": "none", **login},
        "amqp-tls": {"url": amqps, "routing_key": "secure", **login, **ca("amqp")},
        "amqp-untrusted": {"url": amqps, "routing_key": "secure", **login},
        "jetstream": {"url": nats, "subject": "uploads.all", "jetstream": True, **login},
        "core": {"url": nats, "subject": "plain", **login},
        "nats-wrong": {"url": nats, **wrong},
        "nats-forbidden": {"url": nats, "subject": "forbidden", **login},
        "jetstream-none": {"url": nats, "subject": "none", "jetstream": True, **login},
        "nats-tls": {"url": f"tls://{at['nats-tls']}", "subject": "secure", "jetstream": True, **login, **ca("nats-tls")},
        "nats-untrusted": {"url": f"tls://{at['nats-tls']}", **login},
        "unreachable": {"url": "redis://127.0.0.1:1"},
    }
    # Each connects once: the order in which it tries the servers is random.
    targets |= {name: {"url": f"nats://127.0.0.1:1,{at['nats']}", "subject": "pairs", **login} for name in PAIRS}
    if "kafka" in services:
        plain, secure = (f"kafka://{at[name]}/{TOPIC}" for name in ("kafka", "kafka-tls"))
        targets |= {
            "topic": {"url": plain, **login},
            "kafka-wrong": {"url": plain, **wrong},
            "topic-none": {"url": f"kafka://{at['kafka']}/none", **login},
            "kafka-tls": {"url": secure, "tls": True, **login, **ca("kafka-tls")},
            "kafka-untrusted": {"url": secure, "tls": True, **login},
        }
    tables = [
        "{" + ", ".join(f"{key} = {json.dumps(value)}" for key, value in {"name": name, **keys}.items()) + "}"
        for name, keys in targets.items()
    ]
    demo = Demo(folder / "data", env={"ARCHIPEL_EVENT_TARGETS": f"[{', '.join(tables)}]"}, nodes=3)
    yield demo.start()
    demo.stop()


@pytest.fixture(scope="module")
def client(cluster):
    return boto_of(cluster, attempts=4)


def status(cluster, target: str) -> dict:
    """A target, as all nodes together see it: each delivers a part of the events."""
    shown = [
        one
        for node in cluster.nodes
        for one in Admin(node["admin"]).call("GET", "/v1/event-targets")["items"]
        if one["name"] == target
    ]
    return {
        "kind": shown[0]["kind"],
        "fails": any(one["state"] == "failing" for one in shown),
        "errors": [one["error"] for one in shown if "error" in one],
    } | {count: sum(one[count] for one in shown) for count in ("delivered", "failed")}


def notify(client, cluster, bucket: str, *targets: str, **more) -> None:
    """Makes the bucket; each target gets the events of keys that begin with its name and a slash."""
    client.create_bucket(Bucket=bucket)
    kinds = {name: status(cluster, name)["kind"] for name in targets}
    rules = [
        {
            "Id": name,
            "QueueArn": f"arn:archipel:events::{name}:{kinds[name]}",
            "Events": ["s3:ObjectCreated:*", "s3:ObjectRemoved:*"],
            "Filter": {"Key": {"FilterRules": [{"Name": "prefix", "Value": f"{name}/"}]}},
        }
        for name in targets
    ]
    configuration = {"QueueConfigurations": rules}
    client.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration=configuration, **more)


def told(messages: list[str], bucket: str) -> dict[str, list[tuple]]:
    """For each key what happened to it, in the order in which it came, without repetitions."""
    seen: dict[str, list[tuple]] = {}
    for message in messages:
        for record in json.loads(message).get("Records", []):
            if record["s3"]["bucket"]["name"] == bucket:
                name = urllib.parse.unquote_plus(record["s3"]["object"]["key"])
                happened = (record["eventName"], record["s3"]["object"].get("size"))
                if happened not in seen.setdefault(name, []):
                    seen[name].append(happened)
    return seen


def was_tested(messages: list[str], bucket: str) -> bool:
    """Returns true if a message tested the target."""
    known = [json.loads(message) for message in messages]
    return any(one.get("Event") == "s3:TestEvent" and one["Bucket"] == bucket for one in known)


class Writes:
    """Writes of a test, and the events that must follow."""

    def __init__(self, client, bucket: str, target: str):
        self.client, self.bucket, self.target = client, bucket, target
        self.expected: dict[str, list[tuple]] = {}

    def some(self, first_size: int) -> None:
        """Three keys: each is written three times and deleted."""
        for key in ("a", "b c/ü", "d"):
            name = f"{self.target}/{key}{first_size}"
            happened = self.expected.setdefault(name, [])
            for size in range(first_size, first_size + 3):
                self.client.put_object(Bucket=self.bucket, Key=name, Body=bytes(size))
                happened.append(("ObjectCreated:Put", size))
            self.client.delete_object(Bucket=self.bucket, Key=name)
            happened.append(("ObjectRemoved:Delete", None))

    def arrive(self, cluster, messages) -> None:
        """Waits until all events are where `messages` finds them, in order, and no others."""
        done = wait_until(lambda: told(messages(), self.bucket) == self.expected, WAIT_S, 0.2)
        assert done, (told(messages(), self.bucket), status(cluster, self.target))


def survives_restart(client, cluster, service, target: str, messages) -> None:
    """Events come in order, also those of a time in which the server is away."""
    bucket = f"at-{target}"
    notify(client, cluster, bucket, target)
    assert was_tested(messages(), bucket)
    writes = Writes(client, bucket, target)
    writes.some(1)
    writes.arrive(cluster, messages)
    assert not status(cluster, target)["errors"]
    service.stop()
    try:
        writes.some(11)
        assert wait_until(lambda: status(cluster, target)["fails"], WAIT_S)
    finally:
        service.start()
    writes.some(21)
    writes.arrive(cluster, messages)
    assert wait_until(lambda: not status(cluster, target)["errors"], WAIT_S)


def trouble(client, cluster, target: str, *expected: str) -> None:
    """Events wait, and the operator learns why: one of these texts. Secrets are in none."""
    bucket = f"trouble-{target}"
    notify(client, cluster, bucket, target, SkipDestinationValidation=True)
    client.put_object(Bucket=bucket, Key=f"{target}/k", Body=b"")
    assert wait_until(lambda: status(cluster, target)["fails"], WAIT_S)
    shown = status(cluster, target)
    print(f"{target}: {shown['errors']}")
    assert all(any(text in error for text in expected) for error in shown["errors"]), shown
    assert all(WRONG not in error and PASSWORD not in error for error in shown["errors"])


def test_stream_of_redis(client, cluster, services):
    survives_restart(client, cluster, services["redis"], "stream", lambda: services["redis"].stream("archipel-events", 1))


def test_list_and_channel_of_redis(client, cluster, services):
    notify(client, cluster, "redis", "list", "channel")
    writes = Writes(client, "redis", "list")
    writes.some(1)
    writes.arrive(cluster, lambda: services["redis"].list("uploads"))
    with services["redis"].subscribed("uploads", 1) as heard:
        writes = Writes(client, "redis", "channel")
        writes.some(1)
        writes.arrive(cluster, lambda: list(heard))


def test_table_of_postgresql(client, cluster, services):
    def rows() -> list[str]:
        return services["postgresql"].ask(f"SELECT event_data FROM archipel_events {STORED}").splitlines()

    survives_restart(client, cluster, services["postgresql"], "table", rows)
    times = "SELECT count(*) FROM archipel_events WHERE event_time = (event_data #>> '{Records,0,eventTime}')::timestamptz"
    assert int(services["postgresql"].ask(times)) >= 36


def test_queue_of_amqp(client, cluster, services):
    taken: list[tuple[str, int]] = []
    with services["amqp"].channel() as channel:
        channel.queue_declare("uploads", durable=True)

    def messages() -> list[str]:
        taken.extend(services["amqp"].take("uploads"))
        return [text for text, _ in taken]

    survives_restart(client, cluster, services["amqp"], "queue", messages)
    # They were to survive a restart of the broker.
    assert {mode for _, mode in taken} == {2}


def test_exchange_of_amqp(client, cluster, services):
    with services["amqp"].channel() as channel:
        channel.queue_declare("by-topic", durable=True)
        channel.exchange_declare("events", "topic", durable=True)
        channel.queue_bind("by-topic", "events", "a.*")
    taken: list[str] = []

    def messages() -> list[str]:
        taken.extend(text for text, _ in services["amqp"].take("by-topic"))
        return taken

    survives_restart(client, cluster, services["amqp"], "exchange", messages)


def test_jetstream_of_nats(client, cluster, services):
    services["nats"].make_stream("UPLOADS", "uploads.>")
    survives_restart(client, cluster, services["nats"], "jetstream", lambda: services["nats"].stream("UPLOADS"))


def test_subject_of_nats(client, cluster, services):
    with services["nats"].connect() as listener:
        listener.subscribe("plain")
        heard = listener.collect()
        notify(client, cluster, "nats", "core")
        writes = Writes(client, "nats", "core")
        writes.some(1)
        writes.arrive(cluster, lambda: list(heard))


def test_other_server_of_nats_is_used_if_one_is_down(client, cluster):
    for target in PAIRS:
        # The request fails if the target does not get the message that tests it.
        notify(client, cluster, f"at-{target}", target)


def test_server_that_hangs_delays_no_other_target(client, cluster, services):
    notify(client, cluster, "hung", "stream", "table")
    hung, quick = Writes(client, "hung", "stream"), Writes(client, "hung", "table")
    ask = f"SELECT event_data FROM archipel_events {STORED}"
    with services["redis"].hung():
        hung.some(1)
        quick.some(1)
        quick.arrive(cluster, lambda: services["postgresql"].ask(ask).splitlines())
        assert wait_until(lambda: any("in time" in error for error in status(cluster, "stream")["errors"]), WAIT_S)
        quick.some(11)
        quick.arrive(cluster, lambda: services["postgresql"].ask(ask).splitlines())
    hung.arrive(cluster, lambda: services["redis"].stream("archipel-events", 1))


def with_kafka(services) -> None:
    if "kafka" not in services:
        pytest.skip("Go is not installed (1.26 or later), with which the broker of Kafka is built")


def test_topic_of_kafka(client, cluster, services):
    with_kafka(services)

    def messages() -> list[str]:
        """In the order of each partition, from which the order of each key follows."""
        # The message that tests the target counts as no event.
        stored = status(cluster, "topic")["delivered"] + 1
        return [record["value"] for record in services["kafka"].records(stored)]

    survives_restart(client, cluster, services["kafka"], "topic", messages)
    records = services["kafka"].records(37)
    partitions: dict[str, set[int]] = {}
    for record in records:
        for one in json.loads(record["value"]).get("Records", []):
            key = urllib.parse.unquote_plus(one["s3"]["object"]["key"])
            assert record["key"] == f"at-topic/{key}"
            partitions.setdefault(key, set()).add(record["partition"])
    assert all(len(one) == 1 for one in partitions.values())
    assert len(set.union(*partitions.values())) > 1


@pytest.mark.parametrize("kind", ["redis", "table", "amqp", "nats", "kafka"])
def test_certificates_are_checked(client, cluster, services, kind):
    if kind == "kafka":
        with_kafka(services)
    if kind == "amqp":
        with services["amqp"].channel() as channel:
            channel.queue_declare("secure", durable=True)
    if kind == "nats":
        services["nats-tls"].make_stream("SECURE", "secure")
    target = f"{kind}-tls"
    notify(client, cluster, f"secure-{kind}", target)
    writes = Writes(client, f"secure-{kind}", target)
    writes.some(1)
    taken: list[str] = []

    def messages() -> list[str]:
        match kind:
            case "redis":
                return services["redis"].stream("secure")
            case "table":
                return services["postgresql"].ask(f'SELECT event_data FROM public."Secure" {STORED}').splitlines()
            case "amqp":
                taken.extend(text for text, _ in services["amqp"].take("secure"))
                return taken
            case "nats":
                return services["nats-tls"].stream("SECURE")
            case _:
                return [record["value"] for record in services["kafka-tls"].records(13)]

    writes.arrive(cluster, messages)
    trouble(client, cluster, f"{kind}-untrusted", "UnknownIssuer", "CaUsedAsEndEntity")


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("redis-wrong", "Password authentication failed"),
        ("redis-type", "wrong kind of value"),
        ("redis-name", "not valid for name"),
        ("table-wrong", f'password authentication failed for user "{USER}"'),
        ("table-none", 'schema "no_schema" does not exist'),
        ("table-columns", 'column "event_time" of relation "other_columns" does not exist'),
        ("amqp-wrong", "ACCESS_REFUSED"),
        ("exchange-none", "no exchange 'none'"),
        ("queue-none", 'no queue takes messages of exchange "" with routing key "none"'),
        ("nats-wrong", "authorization violation"),
        ("nats-forbidden", "Permissions Violation for Publish"),
        ("jetstream-none", "no stream found"),
        ("kafka-wrong", "Sasl handshake failed"),
        ("topic-none", 'there is no topic "none"'),
        ("unreachable", "cannot connect to 127.0.0.1:1: Connection refused"),
    ],
)
def test_operators_learn_what_is_wrong(client, cluster, services, target, expected):
    match target:
        case "table-columns":
            services["postgresql"].ask("CREATE TABLE other_columns (number int)")
        case "redis-type":
            services["redis"].ask("XADD", "archipel-events", "*", "event", "{}", database=1)
        case "kafka-wrong" | "topic-none":
            with_kafka(services)
    trouble(client, cluster, target, expected)


def test_keys_of_other_kinds_are_named(tmp_path):
    text = f'data_dir = "{tmp_path}"\n[[event_targets]]\nname = "a"\nurl = "kafka://host/t"\ntable = "uploads"\n'
    shown = Server.check(tmp_path, text)
    assert 'event_targets[0].table = "uploads": a target of the kind kafka has no such key; fix: ' in shown
    text = f'data_dir = "{tmp_path}"\n[[event_targets]]\nname = "a"\nurl = "amqp://ann:pass-word@host"\n'
    shown = Server.check(tmp_path, text)
    assert "password_file" in shown and "amqp://...@host" in shown and "pass-word" not in shown
