"""Making a server ready before the first call to it: is it safe enough, and has it our function library?"""

from __future__ import annotations

import warnings

from redis.exceptions import ResponseError

from holdfast.client import failures, safety
from holdfast.client._async.node import AsyncNode
from holdfast.engine import library
from holdfast.errors import HoldfastWarning, NotSafe, Unsupported


async def prepare(node: AsyncNode, check: safety.Check) -> None:
    """Once for each node, and again after it has lost the library."""
    async with node.lock:
        if node.prepared:
            return
        if check != "off":
            _judge(node, await examine(node), check)
        await _load_library(node)
        node.prepared = True


async def _load_library(node: AsyncNode) -> None:
    """Never replaces a newer revision, or another version's library."""
    try:
        found = await node.command("FCALL", f"{library.NAME}_version", 0)
    except ResponseError as error:
        if not failures.no_function(error):
            if failures.unknown_command(error):
                raise Unsupported(
                    f"the server at {node} has no functions; run Valkey 8 or Redis 7, or later; "
                    "see docs/servers.md"
                ) from error
            raise
    else:
        if not library.outdated(found.decode()):
            return
    await node.command("FUNCTION", "LOAD", "REPLACE", library.source())


async def examine(node: AsyncNode) -> list[safety.Finding]:
    """What it really guarantees."""
    settings = ("save", "appendfsync", "min-replicas-to-write")
    info, *told = await node.exchange(
        [("INFO",), *(("CONFIG", "GET", setting) for setting in settings)]
    )
    if isinstance(info, Exception):
        raise info
    config: dict[str, str] = {}
    for answer in told:
        if isinstance(answer, list) and len(answer) == 2:
            config[answer[0].decode()] = answer[1].decode()
    return safety.findings(safety.parse_info(info), config)


def _judge(node: AsyncNode, found: list[safety.Finding], check: safety.Check) -> None:
    for finding in found:
        if finding.topic == "server" and finding.level == "bad":
            raise Unsupported(f"{finding.says}: {finding.fix}")
        if finding.level != "bad":
            continue
        text = f"{finding.topic} at {node}: {finding.says}; to fix it: {finding.fix}"
        if check == "refuse":
            raise NotSafe(text)
        warnings.warn(text, HoldfastWarning, stacklevel=2)
