"""A client is closed while calls of it are under way: when they have ended, no connection is left."""

from __future__ import annotations

import threading
from contextlib import suppress

import holdfast
from holdfast.client._sync.routes import Routes
from holdfast.client.address import parse
from holdfast.client.safety import parse_info
from tests.servers import wait_until


def connected(looking: holdfast.Client, how: str = "connected_clients") -> int:
    """How many clients the server has."""
    return int(parse_info(looking.transport.command("INFO", "clients"))[how])


def test_a_call_that_outlasts_its_client_leaves_no_connection(url: str) -> None:
    with holdfast.connect(url, check="off") as looking:
        before = connected(looking)
        hf = holdfast.connect(url, check="off")
        q = hf.queue("closing")
        q.stats()

        def wait() -> None:
            with suppress(holdfast.Unavailable):
                q.receive(wait=2)

        waiting = threading.Thread(target=wait)
        waiting.start()
        wait_until(lambda: connected(looking, "blocked_clients"), what="somebody who waits")
        hf.close()
        waiting.join()
        wait_until(lambda: connected(looking) <= before, what="no connection")


def test_a_connection_that_comes_back_while_its_client_is_closed_is_closed_too(url: str) -> None:
    with holdfast.connect(url, check="off") as looking:
        before = connected(looking)
        routes = Routes(parse(url), timeout=1)
        node = routes.node_for("")
        used = node.acquire()
        wait_until(lambda: connected(looking) > before, what="a connection")
        routes.close()
        node.release(used)
        wait_until(lambda: connected(looking) <= before, what="no connection")


def test_a_node_that_is_found_after_the_end_keeps_no_connection(url: str) -> None:
    with holdfast.connect(url, check="off") as looking:
        before = connected(looking)
        routes = Routes(parse(url), timeout=1)
        routes.close()
        node = routes.node_at("", 0)
        node.release(node.acquire())
        wait_until(lambda: connected(looking) <= before, what="no connection")
