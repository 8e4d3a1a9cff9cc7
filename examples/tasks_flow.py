"""Flows: one task after the other, several side by side, and what follows when all are done.

No coordinator: each message carries what comes after it, and the worker that has done a step sends the next.
"""

from __future__ import annotations

import asyncio

import holdfast
from holdfast import chain, group
from holdfast.worker.shares import Share
from holdfast.worker.worker import Plan, Worker

app = holdfast.App(queue="example-flow")

TEXTS = {"a": "tea for two", "b": "two for tea", "c": "me for you"}


@app.task
def load(name: str) -> str:
    return TEXTS[name]


@app.task
def words(text: str) -> list[str]:
    return text.split()


@app.task
def count(found: list[list[str]]) -> dict[str, int]:
    """After a group: what its parts returned, in their order."""
    flat = [word for words in found for word in words]
    return {word: flat.count(word) for word in sorted(set(flat))}


@app.task
def report(counts: dict[str, int], title: str) -> str:
    most = max(counts, key=lambda word: counts[word])
    return f"{title}: {len(counts)} words, most often {most!r}"


async def work() -> None:
    await Worker(app, Plan([Share("example-flow")], idle=0.5)).run()
    await app.close_async()


def main() -> None:
    parts = [chain(load.job(name), words.job()) for name in TEXTS]
    handle = group(parts).then(count.job()).then(report.job(title="three lines")).send()
    asyncio.run(work())
    print(handle.result(timeout=10))
    app.close()


if __name__ == "__main__":
    main()
