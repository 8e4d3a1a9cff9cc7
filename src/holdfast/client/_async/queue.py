"""One queue, as users handle it: every verb of the glossary."""

from __future__ import annotations

from holdfast.client._async.keeping import AsyncKeeping
from holdfast.client._async.looking import AsyncLooking
from holdfast.client._async.receiving import AsyncReceiving
from holdfast.client._async.sending import AsyncSending
from holdfast.client._async.settling import AsyncSettling


class AsyncQueue(AsyncSending, AsyncReceiving, AsyncSettling, AsyncLooking, AsyncKeeping):
    """A queue by name. Cheap to make; nothing is on the server until something is sent or set.

    Obtained from a client: `hf.queue("orders")`.
    """
