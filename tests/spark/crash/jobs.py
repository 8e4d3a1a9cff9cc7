"""The shipped jobs as programs to be killed: the commands that a user types."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

_SCHEMA = "number INT, cents INT"


@dataclass
class Archive:
    """`holdfast spark archive`."""

    url: str
    queue: str
    parquet: str
    once: bool = False

    @property
    def checkpoint(self) -> str:
        return f"{self.parquet}/_checkpoint-{quote(self.queue, safe='')}"

    @property
    def words(self) -> list[str]:
        job = ["spark", "archive", self.queue, "--to", self.parquet, "--max-rows", "2000"]
        return _command(job, self.url, self.once)


@dataclass
class Bridge:
    """`holdfast spark bridge`, from queue to queue; what is not worth a euro dies."""

    url: str
    queue: str
    to_queue: str
    checkpoint: str
    parquet: str = ""
    once: bool = False

    @property
    def words(self) -> list[str]:
        job = ["spark", "bridge", "--from", self.queue, "--to", self.to_queue]
        job += ["--schema", _SCHEMA, "--expect", "value.cents >= 100"]
        job += ["--sql", "SELECT value.number AS number FROM messages"]
        job += ["--checkpoint", self.checkpoint, "--max-rows", "2000"]
        return _command(job, self.url, self.once)


def _command(job: list[str], url: str, once: bool) -> list[str]:
    always = ["--url", url, "--every", "1ms", "--conf", "spark.sql.shuffle.partitions=2"]
    return ["holdfast.cli.main", *job, *always, *(["--once"] if once else [])]
