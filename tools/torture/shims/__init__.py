"""Libraries that are preloaded into a server, so that a test has its disk and its clock in hand.

They are compiled where there is a C compiler; where there is none, the scenarios that need one are skipped.
"""

from __future__ import annotations

import mmap
import random
import shutil
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

from holdfast.embedded import binary

_SOURCES = Path(__file__).parent


def compiler() -> str | None:
    return shutil.which("cc") or shutil.which("gcc")


def program(folder: Path, name: str, variables: Mapping[str, Path]) -> Path:
    """A program that is the server with this shim in it, and keeps its process id."""
    cc = compiler()
    assert cc is not None, "no C compiler"
    library, starter = folder / f"{name}.so", folder / f"{name}-server"
    source = _SOURCES / f"{name}.c"
    subprocess.run(
        [cc, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True
    )
    settings = " ".join(f"{key}={path}" for key, path in variables.items())
    starter.write_text(f'#!/bin/sh\nexec env LD_PRELOAD={library} {settings} {binary()} "$@"\n')
    starter.chmod(0o755)
    return starter


class Disk:
    """Knows what has reached the disk of a server, and can fill it up."""

    def __init__(self, folder: Path) -> None:
        self._synced = folder / "synced.log"
        self._full = folder / "full"
        self.program = program(
            folder, "disk", {"DISK_SYNCED": self._synced, "DISK_FULL": self._full}
        )

    def fill(self) -> None:
        self._full.touch()

    def make_room(self) -> None:
        self._full.unlink(missing_ok=True)

    def cut_power(self, data: Path, rnd: random.Random) -> int:
        """Take back what a server, that is dead now, had written and not synced. Some of it may have made it,
        and ends anywhere. How many bytes are gone."""
        sizes: dict[str, int] = {}
        for line in self._synced.read_text().splitlines():
            synced, _, path = line.partition(" ")
            sizes[path] = int(synced)
        gone = 0
        manifest = data / "appendonlydir" / "appendonly.aof.manifest"
        for line in manifest.read_text().splitlines():
            words = line.split()
            file, kind = data / "appendonlydir" / words[1], words[5]
            # A base file is synced before it gets its name; one of the history is of no use any more.
            if kind != "i":
                continue
            size = file.stat().st_size
            kept = min(sizes.get(str(file), 0), size)
            kept += rnd.randint(0, size - kept)
            gone += size - kept
            with file.open("r+b") as opened:
                opened.truncate(kept)
        return gone


class Clock:
    """The wall clock of a server."""

    def __init__(self, folder: Path) -> None:
        path = folder / "clock"
        path.write_bytes(struct.pack("q", 0))
        with path.open("r+b") as opened:
            self._page = mmap.mmap(opened.fileno(), 8)
        self.program = program(folder, "clock", {"CLOCK_OFFSET": path})

    @property
    def offset(self) -> float:
        """Seconds that it is ahead of ours."""
        return float(struct.unpack("q", self._page[:8])[0] / 1e6)

    def set(self, seconds: float) -> None:
        self._page[:8] = struct.pack("q", round(seconds * 1e6))
