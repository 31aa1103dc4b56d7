"""A client of NATS, as small as tests need it."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import ssl
import threading


class Client:
    """A connection. Messages of all subscriptions come in the order in which the server sent them."""

    def __init__(self, port: int, user: str, password: str, tls: bool = False):
        self.socket = socket.create_connection(("127.0.0.1", port), 10)
        # TLS begins behind this line, so nothing more may be read here.
        line = b""
        while not line.endswith(b"\n"):
            line += self.socket.recv(1)
        assert line.startswith(b"INFO ")
        if tls:
            self.socket = ssl._create_unverified_context().wrap_socket(self.socket)  # noqa: S323 - not what is tested
        self.lines = self.socket.makefile("rb")
        options = {"user": user, "pass": password, "verbose": False, "pedantic": False, "headers": False}
        self.send(f"CONNECT {json.dumps(options)}\r\nPING\r\n")
        answer = self.lines.readline()
        assert answer == b"PONG\r\n", answer
        self.subscriptions = 0

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_) -> None:
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def send(self, text: str) -> None:
        self.socket.sendall(text.encode())

    def subscribe(self, subject: str) -> None:
        """Returns once the server knows the subscription."""
        self.subscriptions += 1
        self.send(f"SUB {subject} {self.subscriptions}\r\nPING\r\n")
        answer = self.lines.readline()
        assert answer == b"PONG\r\n", answer

    def message(self) -> tuple[str, str]:
        """The next message: its subject, and its text."""
        while True:
            line = self.lines.readline().decode()
            words = line.split()
            if words[:1] == ["MSG"]:
                text = self.lines.read(int(words[-1]) + 2)[:-2]
                return words[1], text.decode()
            if words == ["PING"]:
                self.send("PONG\r\n")
            else:
                raise AssertionError(f"the server said {line!r}")

    def collect(self) -> list[str]:
        """A list that gets the texts of further messages as they come, until the connection ends."""
        collected: list[str] = []
        self.socket.settimeout(None)

        def take() -> None:
            with contextlib.suppress(OSError, ValueError, AssertionError):
                while True:
                    collected.append(self.message()[1])

        threading.Thread(target=take, daemon=True).start()
        return collected

    def request(self, subject: str, question: dict) -> dict:
        text, inbox = json.dumps(question), f"_INBOX.test.{self.subscriptions}"
        self.subscribe(inbox)
        self.send(f"PUB {subject} {inbox} {len(text)}\r\n{text}\r\n")
        return json.loads(self.message()[1])

    def stored(self, stream: str, number: int) -> str:
        """The message of a stream with this number."""
        answer = self.request(f"$JS.API.STREAM.MSG.GET.{stream}", {"seq": number})
        return base64.b64decode(answer["message"]["data"]).decode()
