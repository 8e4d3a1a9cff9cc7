"""The real command line against a real server: in this process where that is enough, in a process
of its own where signals, pipes and exit statuses are the point."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

import holdfast
from holdfast.cli.main import main
from tests.servers import standalone

SOURCE = Path(holdfast.__file__).parents[1]


class Result(NamedTuple):
    status: int
    raw: bytes
    err: str

    @property
    def out(self) -> str:
        return self.raw.decode()

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def objects(self) -> list[Any]:
        return [msgspec.json.decode(line) for line in self.raw.splitlines()]

    @property
    def object(self) -> Any:
        [found] = self.objects
        return found


Run = Callable[..., Result]
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone(tmp_path_factory.mktemp("cli")) as url:
        yield url


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: str) -> None:
    """Nothing of the developer's own shell gets in; no test makes a .holdfast where it runs."""
    for name in ("HOLDFAST_DEBUG", "COLUMNS", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))
    monkeypatch.setenv("HOLDFAST_URL", server)


@pytest.fixture
def client(server: str) -> Iterator[holdfast.Client]:
    with holdfast.connect(server) as found:
        yield found


@pytest.fixture
def queue(client: holdfast.Client, request: pytest.FixtureRequest) -> holdfast.Queue:
    """A queue of this test's own."""
    return client.queue(f"{request.node.name[:150]}-{os.getpid()}")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """One command line, in this process."""

    def call(*words: str, stdin: bytes = b"", out: io.BytesIO | None = None) -> Result:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        raw, err = out if out is not None else io.BytesIO(), io.BytesIO()
        stdout, stderr = io.TextIOWrapper(raw, "utf-8"), io.TextIOWrapper(err, "utf-8")
        with redirect_stdout(stdout), redirect_stderr(stderr):
            status = main(words)
        stdout.flush()
        stderr.flush()
        result = Result(status, raw.getvalue(), err.getvalue().decode())
        stdout.detach()
        stderr.detach()
        return result

    return call


@pytest.fixture
def start() -> Iterator[Start]:
    """One command line, in a process of its own, its standard streams as pipes."""
    started: list[subprocess.Popen[bytes]] = []

    def call(*words: str, **options: Any) -> subprocess.Popen[bytes]:
        streams: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast.cli.main", *words], **(streams | options)
        )
        started.append(process)
        return process

    yield call
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream and not stream.closed:
                stream.close()
