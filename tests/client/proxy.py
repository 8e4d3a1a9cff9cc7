"""A TCP proxy between client and server that can lose answers, cut connections, and speak TLS."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote, urlsplit


class Proxy:
    """`lose(word, n)`: let the next n commands through that hold `word`, and cut before their answer.

    `answer`: how an answer is told from what else a server may say in between.
    """

    def __init__(self, url: str, tls: ssl.SSLContext | None = None, answer: bytes = b"") -> None:
        split = urlsplit(url)
        self._path = unquote(split.path) if split.scheme == "unix" else ""
        self._target = (split.hostname or "", split.port or 0)
        self._tls = tls
        self._answer = re.compile(answer)
        self._lock = threading.Lock()
        self._lose = (b"", 0)
        self._for_good = False
        self.lost = 0
        self.connections = 0
        self._open: set[socket.socket] = set()
        self._broken = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def lose(self, word: bytes, times: int = 1, for_good: bool = False) -> None:
        """`for_good`: then let nobody in any more."""
        with self._lock:
            self._lose, self._for_good = (word, times), for_good

    def cut(self) -> None:
        """Cut every connection there is."""
        for each in list(self._open):
            self._end(each)

    def break_off(self) -> None:
        """Cut every connection, and let nobody in until `mend`."""
        self._broken.set()
        self.cut()

    def mend(self) -> None:
        self._broken.clear()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._broken.is_set():
                self._end(client)
                continue
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            if self._tls is not None:
                client = self._tls.wrap_socket(client, server_side=True)
            server = socket.socket(socket.AF_UNIX if self._path else socket.AF_INET)
            server.connect(self._path or self._target)
        except OSError:
            self._end(client)
            return
        self.connections += 1
        self._open |= {client, server}
        doomed = threading.Event()
        threading.Thread(
            target=self._pump, args=(server, client, None, doomed), daemon=True
        ).start()
        self._pump(client, server, doomed, None)

    def _pump(
        self,
        source: socket.socket,
        target: socket.socket,
        dooms: threading.Event | None,
        doomed: threading.Event | None,
    ) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if dooms is not None and self._is_to_be_lost(data):
                    dooms.set()
                if doomed is not None and doomed.is_set() and self._answer.search(data):
                    # The server has done it; the client will never hear so.
                    with self._lock:
                        self.lost += 1
                        if self._for_good:
                            self._broken.set()
                    break
                target.sendall(data)
        self._end(source)
        self._end(target)

    def _is_to_be_lost(self, data: bytes) -> bool:
        with self._lock:
            word, times = self._lose
            if times > 0 and word in data:
                self._lose = (word, times - 1)
                return True
        return False

    def _end(self, each: socket.socket) -> None:
        self._open.discard(each)
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()

    def close(self) -> None:
        self._listener.close()
        self.cut()


@contextmanager
def proxied(url: str, tls: ssl.SSLContext | None = None, answer: bytes = b"") -> Iterator[Proxy]:
    proxy = Proxy(url, tls, answer)
    try:
        yield proxy
    finally:
        proxy.close()
