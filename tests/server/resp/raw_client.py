"""A client that shows the very bytes of each reply."""

from __future__ import annotations

import socket

import hiredis


class Raw:
    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)

    def say(self, line: str) -> bytes:
        """An inline command's reply, whole."""
        self.socket.sendall(line.encode() + b"\r\n")
        return self.reply()

    def reply(self) -> bytes:
        """The next reply; what is there already if the connection ends first."""
        reader, came = hiredis.Reader(), b""
        while True:
            byte = self.socket.recv(1)
            came += byte
            reader.feed(byte)
            if not byte or reader.gets() is not False:
                return came

    def close(self) -> None:
        self.socket.close()
