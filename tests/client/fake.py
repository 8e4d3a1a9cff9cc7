"""Servers that speak the protocol and nothing else: for answers that no real one can be made to give."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import hiredis

# What is said to a command; None: nothing at all.
Answer = Callable[[list[bytes]], bytes | None]


class Fake:
    """Counts the commands it gets, and answers each as `answer` says."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.commands: list[list[bytes]] = []
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._open.add(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        reader = hiredis.Reader()
        with contextlib.suppress(OSError):
            while data := client.recv(1 << 16):
                reader.feed(data)
                while words := reader.gets():
                    self.commands.append(words)
                    said = self.answer(words)
                    if said is not None:
                        client.sendall(said)
        client.close()

    def close(self) -> None:
        for each in [self._listener, *self._open]:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@contextmanager
def fake(answer: Answer) -> Iterator[Fake]:
    server = Fake(answer)
    try:
        yield server
    finally:
        server.close()


def bulk(data: bytes) -> bytes:
    return b"$%d\r\n%s\r\n" % (len(data), data)


def array(*items: bytes) -> bytes:
    return b"*%d\r\n%s" % (len(items), b"".join(items))
