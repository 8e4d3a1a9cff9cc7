"""An error as gRPC tells it: status, text, and details from which clients rebuild its class.

The status stands on the error's class, so there is no table here. The details are the standard ones
(google.rpc.ErrorInfo), which every language's gRPC can read.
"""

from __future__ import annotations

import logging
from typing import Any, NoReturn

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import ErrorInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]

from holdfast.errors import HoldfastError, TryAgain

log = logging.getLogger("holdfast.server.grpc")

DOMAIN = "holdfast"
# Trailers have room for 8 KB in most gRPC implementations, and the text goes there twice.
_LONGEST = 2_000


def status_of(error: HoldfastError) -> Status:
    details = AnyMessage()
    retryable = "true" if isinstance(error, TryAgain) else "false"
    details.Pack(ErrorInfo(reason=error.code, domain=DOMAIN, metadata={"retryable": retryable}))
    code: int = grpc.StatusCode[error.grpc_status].value[0]
    return Status(code=code, message=str(error)[:_LONGEST], details=[details])


async def refuse(context: grpc.aio.ServicerContext[Any, Any], error: Exception) -> NoReturn:
    """End the call with this error. One that is not ours is logged, and told without its text: that
    may say things about the inside that are not the caller's to know."""
    if not isinstance(error, HoldfastError):
        log.error("a call failed: %r", error, exc_info=error)
        error = HoldfastError("the server failed at this call; its log says why")
    status = status_of(error)
    await context.abort(
        grpc.StatusCode[error.grpc_status],
        status.message,
        (("grpc-status-details-bin", status.SerializeToString()),),
    )
