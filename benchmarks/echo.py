"""A gRPC service that does nothing but answer: what a call costs on this machine before any work.

python -m benchmarks.echo       says its address, and answers until it is stopped
"""

from __future__ import annotations

import asyncio

import grpc

METHOD = "/benchmarks.Echo/Echo"


async def _answer(request: bytes, context: object) -> bytes:
    return request


async def main() -> None:
    server = grpc.aio.server()
    handler = grpc.method_handlers_generic_handler(
        "benchmarks.Echo", {"Echo": grpc.unary_unary_rpc_method_handler(_answer)}
    )
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"127.0.0.1:{port}", flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(main())
