"""Where messages wait to be received: what a queue and a subscription have in common."""

from __future__ import annotations

from holdfast.client._async.keeping import AsyncKeeping
from holdfast.client._async.looking import AsyncLooking
from holdfast.client._async.receiving import AsyncReceiving
from holdfast.client._async.reserving import AsyncReserving
from holdfast.client._async.settling import AsyncSettling


class AsyncPlace(AsyncReceiving, AsyncSettling, AsyncLooking, AsyncReserving, AsyncKeeping):
    """Receive, settle, look, reserve, keep house."""
