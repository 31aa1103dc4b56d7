"""Servers to which events go: each on loopback with its data in a folder, started and stopped by its process id."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from pathlib import Path

import pika

from . import go, nats
from .server import free_port, group_lives, wait_until

USER, PASSWORD = "ann", "a password that nobody-guesses"
READY_S = 60


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that is its own authority, and its key."""
    chain, key = folder / "certificate.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-addext", "basicConstraints=critical,CA:FALSE", "-keyout", str(key), "-out", str(chain)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return chain, key


def program(name: str, *folders: str) -> str:
    """A program, also in folders that are on no PATH."""
    found = shutil.which(name, path=":".join([os.environ.get("PATH", ""), "/usr/sbin", *folders]))
    assert found, f"{name} is not installed: apt-get install nats-server openssl postgresql rabbitmq-server redis-server"
    return found


class Service:
    """A server. `user` is who runs it if the tests run as root, because some servers refuse root."""

    user: str | None = None
    stops_by = signal.SIGKILL

    def __init__(self):
        # Not in the folder of the test: the server's user must get there, and sockets need short paths.
        self.folder = Path(tempfile.mkdtemp(prefix="archipel-service-", dir="/tmp"))
        self.port, self.tls_port = free_port(), free_port()
        self.certificate, self.key = certificate(self.folder)
        self.processes: list[subprocess.Popen] = []
        self.own()

    def own(self) -> None:
        """Gives the folder to the server's user."""
        if os.getuid() == 0 and self.user:
            for path in [self.folder, *self.folder.rglob("*")]:
                shutil.chown(path, self.user, -1)
        self.key.chmod(0o600)

    def run(self, *command: str, env: dict[str, str] | None = None) -> None:
        """Begins a program of the server, in a process group of its own."""
        as_user = {"user": self.user} if os.getuid() == 0 and self.user else {}
        with open(self.folder / "log", "ab") as log:
            started = subprocess.Popen(
                command,
                env={**os.environ, "HOME": str(self.folder), **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                **as_user,
            )
        self.processes.append(started)

    def begin(self) -> None:
        """Begins the programs of the server."""
        raise NotImplementedError

    def answers(self) -> bool:
        """True once clients can use it."""
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 5):
            return True
        return False

    def start(self) -> None:
        self.begin()
        wait_until(lambda: self.answers() or any(p.poll() is not None for p in self.processes), READY_S)
        assert self.answers(), ([process.poll() for process in self.processes], self.logged())

    def logged(self) -> str:
        """The ends of what its programs wrote."""
        logs = sorted({self.folder / "log", *self.folder.glob("logs/*.log")})
        return "\n".join(f"{log.name}: {log.read_text(errors='replace')[-3000:]}" for log in logs)

    def stop(self) -> None:
        for process in reversed(self.processes):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, self.stops_by)
            process.wait(60)
            assert wait_until(lambda pid=process.pid: not group_lives(pid), 30)
        self.processes = []

    @contextlib.contextmanager
    def hung(self):
        """Lets the server take connections and answer nothing meanwhile."""
        for process in self.processes:
            os.killpg(process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for process in self.processes:
                os.killpg(process.pid, signal.SIGCONT)

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def client(self, *command: str) -> str:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd="/")
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout


class Redis(Service):
    def begin(self) -> None:
        self.run(
            program("redis-server"),
            *("--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)),
            *("--appendonly", "yes", "--appendfsync", "always", "--save", ""),
            *("--tls-port", str(self.tls_port), "--tls-auth-clients", "no"),
            *("--tls-cert-file", str(self.certificate), "--tls-key-file", str(self.key)),
            *("--requirepass", PASSWORD, "--user", USER, "on", f">{PASSWORD}", "~*", "&*", "+@all"),
        )

    def answers(self) -> bool:
        return super().answers() and "PONG" in self.ask("PING")

    def command(self, database: int) -> list[str]:
        login = ["--no-auth-warning", "-a", PASSWORD, "-n", str(database)]
        return [program("redis-cli"), "-p", str(self.port), *login]

    def ask(self, *command: str, database: int = 0) -> str:
        """The answer to a command, as JSON."""
        return self.client(*self.command(database), "--json", *command)

    def stream(self, name: str, database: int = 0) -> list[str]:
        entries = json.loads(self.ask("XRANGE", name, "-", "+", database=database))
        assert all(fields[0] == "event" and len(fields) == 2 for _, fields in entries)
        return [fields[1] for _, fields in entries]

    def list(self, name: str) -> list[str]:
        return json.loads(self.ask("LRANGE", name, "0", "-1"))

    @contextlib.contextmanager
    def subscribed(self, channel: str, database: int):
        """Listens to a channel; yields a list that gets messages as they come."""
        command = [*self.command(database), "SUBSCRIBE", channel]
        listener = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        heard: list[str] = []

        def take() -> None:
            for line in listener.stdout:
                # Each message has three lines; its text comes last.
                if line.startswith("{"):
                    heard.append(line)

        try:
            assert "subscribe" in listener.stdout.readline()
            threading.Thread(target=take, daemon=True).start()
            yield heard
        finally:
            listener.kill()
            listener.wait()


class Postgres(Service):
    user = "postgres"

    @functools.cached_property
    def programs(self) -> list[str]:
        return [str(path) for path in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]

    def begin(self) -> None:
        data = self.folder / "data"
        if not data.exists():
            secret = self.folder / "secret"
            secret.write_text(PASSWORD)
            self.own()
            make = [program("initdb", *self.programs), "-D", str(data), "-U", USER, f"--pwfile={secret}"]
            self.run(*make, "--auth=scram-sha-256", "--no-sync", "--encoding=UTF8")
            assert self.processes.pop().wait(60) == 0, (self.folder / "log").read_text()
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "ssl": "on",
            "ssl_cert_file": self.certificate,
            "ssl_key_file": self.key,
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        self.run(program("postgres", *self.programs), "-D", str(data), *options)

    def answers(self) -> bool:
        if not super().answers():
            return False
        with contextlib.suppress(AssertionError):
            return "1" in self.ask("SELECT 1")
        return False

    def ask(self, command: str) -> str:
        address = f"host=127.0.0.1 port={self.port} user={USER} password='{PASSWORD}' dbname=postgres"
        return self.client(program("psql", *self.programs), address, "-v", "ON_ERROR_STOP=1", "-Atc", command)


class Rabbit(Service):
    user = "rabbitmq"
    # Killed, it forgets queues that were declared a moment ago.
    stops_by = signal.SIGTERM

    def begin(self) -> None:
        epmd, distribution = free_port(), free_port()
        settings = {
            "listeners.tcp.1": f"127.0.0.1:{self.port}",
            "listeners.ssl.1": f"127.0.0.1:{self.tls_port}",
            "ssl_options.certfile": self.certificate,
            "ssl_options.keyfile": self.key,
            "default_user": USER,
            "default_pass": PASSWORD,
        }
        lines = [f"{name} = {value}\n" for name, value in settings.items()]
        (self.folder / "rabbitmq.conf").write_text("".join(lines))
        (self.folder / "plugins").write_text("[].")
        self.own()
        env = {
            "ERL_EPMD_PORT": str(epmd),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": "test@localhost",
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_MNESIA_BASE": f"{self.folder}/data",
            "RABBITMQ_LOG_BASE": f"{self.folder}/logs",
            "RABBITMQ_PID_FILE": f"{self.folder}/pid",
            "RABBITMQ_CONFIG_FILE": f"{self.folder}/rabbitmq.conf",
            "RABBITMQ_CONF_ENV_FILE": f"{self.folder}/none",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{self.folder}/plugins",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        }
        # Else the first Erlang starts it, and it outlives it.
        self.run(program("epmd"), "-port", str(epmd), "-address", "127.0.0.1")
        self.run(program("rabbitmq-server", "/usr/lib/rabbitmq/bin"), env=env)

    def answers(self) -> bool:
        if not super().answers():
            return False
        try:
            with self.channel():
                return True
        except (pika.exceptions.AMQPError, OSError):
            return False

    @contextlib.contextmanager
    def channel(self):
        login = pika.PlainCredentials(USER, PASSWORD)
        address = pika.ConnectionParameters("127.0.0.1", self.port, "/", login, socket_timeout=10)
        connection = pika.BlockingConnection(address)
        try:
            yield connection.channel()
        finally:
            connection.close()

    def take(self, queue: str) -> list[tuple[str, int]]:
        """The messages of a queue, which are gone then, and their delivery modes."""
        taken = []
        with self.channel() as channel:
            while True:
                method, properties, body = channel.basic_get(queue, auto_ack=True)
                if method is None:
                    return taken
                taken.append((body.decode(), properties.delivery_mode))


class Nats(Service):
    def __init__(self, tls: bool = False):
        super().__init__()
        self.tls = tls

    def begin(self) -> None:
        tls = f'tls {{ cert_file: "{self.certificate}", key_file: "{self.key}" }}\n' if self.tls else ""
        (self.folder / "nats.conf").write_text(
            f'listen: "127.0.0.1:{self.port}"\njetstream {{ store_dir: "{self.folder}/data" }}\n{tls}'
            f'authorization {{ users: [ {{ user: "{USER}", password: "{PASSWORD}",'
            ' permissions: { publish: { deny: "forbidden" } } } ] }\n'
        )
        self.run(program("nats-server"), "-c", str(self.folder / "nats.conf"))

    def connect(self) -> nats.Client:
        return nats.Client(self.port, USER, PASSWORD, self.tls)

    def make_stream(self, name: str, subject: str) -> None:
        with self.connect() as client:
            made = client.request(f"$JS.API.STREAM.CREATE.{name}", {"name": name, "subjects": [subject], "storage": "file"})
            assert "error" not in made, made

    def stream(self, name: str) -> list[str]:
        with self.connect() as client:
            count = client.request(f"$JS.API.STREAM.INFO.{name}", {})["state"]["messages"]
            return [client.stored(name, number) for number in range(1, count + 1)]


class Kafka(Service):
    def __init__(self, broker: Path, topic: str, tls: bool = False):
        super().__init__()
        self.broker, self.topic = broker, topic
        self.env = {"KAFKA_USER": USER, "KAFKA_PASSWORD": PASSWORD}
        if tls:
            self.env |= {"KAFKA_CERTIFICATE": str(self.certificate), "KAFKA_KEY": str(self.key)}

    @staticmethod
    def build(folder: Path) -> Path:
        """Builds the broker, with Go 1.26 or later."""
        built = folder / "kafka_broker"
        env = {**os.environ, **go.ENVIRONMENT}
        command = ["go", "build", "-o", str(built), "."]
        done = subprocess.run(command, env=env, cwd=Path(__file__).with_name("kafka_broker"), capture_output=True, timeout=600)
        assert done.returncode == 0, done.stderr.decode()
        return built

    def begin(self) -> None:
        data = str(self.folder / "data")
        self.run(str(self.broker), "serve", str(self.port), data, self.topic, "4", env=self.env)

    def records(self, at_least: int) -> list[dict]:
        command = [str(self.broker), "read", f"127.0.0.1:{self.port}", self.topic, str(at_least)]
        done = subprocess.run(command, env={**os.environ, **self.env}, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]
