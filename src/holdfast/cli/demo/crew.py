"""Worker processes: started, watched, replaced when they die, stopped at the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from holdfast.cli.demo.orders import Orders
from holdfast.errors import HoldfastError

_STOP_SECONDS = 15.0


@dataclass
class Member:
    number: int
    process: subprocess.Popen[bytes]
    complaints: Path


class Crew:
    """So many workers at any time. Leaving the `with` block ends all of them."""

    def __init__(self, size: int, url: str, queue: str, orders: Orders, folder: Path) -> None:
        self._size = size
        self._queue = queue
        self._orders = orders
        self._folder = folder
        root = str(Path(__file__).parents[3])
        inherited = os.environ.get("PYTHONPATH")
        self._environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([root, inherited] if inherited else [root]),
            "HOLDFAST_URL": url,  # not in argv, where anybody could read a password
        }
        self._hired = 0
        self.fixed = False
        self.members: list[Member] = []

    def start(self) -> None:
        while len(self.members) < self._size:
            self._hire()

    def _hire(self) -> Member:
        self._hired += 1
        number = self._hired
        name = f"{number}{'-fixed' if self.fixed else ''}"
        complaints = self._folder / f"{name}.stderr"
        words = [self._queue, str(self._orders.count), str(self._orders.seed)]
        words += [str(self._folder / f"{name}.record")] + ["--fixed"] * self.fixed
        with complaints.open("wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "holdfast.cli.demo.worker", *words],
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
            )
        member = Member(number, process, complaints)
        self.members.append(member)
        return member

    def replace_the_dead(self) -> list[tuple[Member, Member]]:
        """Those killed since the last look, each with its replacement."""
        replaced = []
        for member in list(self.members):
            status = member.process.poll()
            if status is None:
                continue
            self._forget(member)
            if status != -signal.SIGKILL:
                raise HoldfastError(
                    f"worker {member.number} of the demo ended with status {status}: "
                    + (member.complaints.read_text(errors="replace").strip() or "it said nothing")
                )
            replaced.append((member, self._hire()))
        return replaced

    def stop(self) -> None:
        """Let all finish what they have in hand, and wait for them."""
        for member in self.members:
            assert member.process.stdin is not None
            member.process.stdin.close()
        for member in list(self.members):
            member.process.wait(_STOP_SECONDS)
            self._forget(member)

    def _forget(self, member: Member) -> None:
        self.members.remove(member)
        assert member.process.stdin is not None
        member.process.stdin.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for member in list(self.members):
            member.process.kill()
            member.process.wait()
            self._forget(member)
