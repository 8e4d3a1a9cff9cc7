"""The clients: `_async` is written by hand, `_sync` is generated from it."""

from __future__ import annotations

from holdfast.client._async.client import AsyncClient
from holdfast.client._async.queue import AsyncQueue
from holdfast.client._sync.client import Client
from holdfast.client._sync.queue import Queue

__all__ = ["AsyncClient", "AsyncQueue", "Client", "Queue"]
