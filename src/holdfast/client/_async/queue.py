"""One queue, as users handle it: every verb of the glossary."""

from __future__ import annotations

from holdfast.client._async.place import AsyncPlace
from holdfast.client._async.sending import AsyncSending


class AsyncQueue(AsyncSending, AsyncPlace):
    """A queue by name. Cheap to make; nothing is on the server until something is sent or set.

    Obtained from a client: `hf.queue("orders")`.
    """
