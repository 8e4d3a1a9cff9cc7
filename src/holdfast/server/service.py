"""The server as one thing that starts and stops.

    start   connect to Valkey and check it, read the tokens, open every door; or raise, leaving
            nothing open
    stop    quiet: no door takes anybody new, and waiting calls end; then close: what is in hand
            is finished, what streams hold is given back; then the connection to Valkey

The doors stop side by side under one deadline. It is kept whatever a door does: a supervisor that
loses patience kills, and then leases must run out before messages come back.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from holdfast.client._async.client import AsyncClient
from holdfast.errors import HoldfastError, InvalidArgument, TryAgain, Unavailable, Unsupported
from holdfast.server import tokens
from holdfast.server.binding import Bind
from holdfast.server.broker import Broker
from holdfast.server.config import Config
from holdfast.server.gate import Gate
from holdfast.server.logs import event
from holdfast.server.meter import Meter

log = logging.getLogger("holdfast.server")

# Shares of the grace period: doors are told to be done after the first, cut off after the second;
# the rest is for the connection to Valkey and the end of the process.
_FINISH, _CUT = 0.8, 0.9


class Door(Protocol):
    @property
    def address(self) -> str:
        """Where it really listens, once open."""

    async def open(self) -> None: ...

    async def quiet(self) -> None:
        """Take nobody new; let waiting calls end."""

    async def close(self, deadline_s: float) -> None:
        """Finish what is in hand, give back what streams hold, close."""


class Service:
    def __init__(self, config: Config) -> None:
        self.config = config
        self.gate = Gate(required=config.options.token_file is not None)
        self.meter = Meter(config.limits)
        self.doors: dict[str, Door] = {}
        self._client: AsyncClient | None = None
        self._since = time.monotonic()

    @property
    def addresses(self) -> dict[str, str]:
        """Where each open door really listens."""
        return {name: door.address for name, door in self.doors.items()}

    # ---- start ----------------------------------------------------------------------------

    async def start(self) -> None:
        """Returns when all doors are open. Raises a HoldfastError, and then nothing is open."""
        try:
            self.reload()
            tls = self.config.tls
            if tls is not None:
                tls.context()  # a wrong file is found before anything else happens
            client = await self._connect()
            broker = Broker(client, self.config.limits)
            for name, bind in self.config.binds.items():
                door = _MAKERS[name](self, broker, bind)
                await _opened(name, bind, door)
                self.doors[name] = door
            if self.config.options.reap_every:
                await client.start_reaper(self.config.options.reap_every)
        except BaseException:
            await self._end(0)
            raise

    async def _connect(self) -> AsyncClient:
        options = self.config.options
        # The embedded server may have to be started, which takes a while: not on the event loop.
        self._client = client = await asyncio.to_thread(
            lambda: AsyncClient(
                options.url,
                retry_for=options.retry_for,
                replicas=options.replicas,
                check=options.check,
            )
        )
        give_up = time.monotonic() + options.wait_for_server
        last: TryAgain | None = None
        while True:
            try:
                # At least one honest try, also where nobody wants to wait.
                async with asyncio.timeout(max(give_up - time.monotonic(), 1)):
                    # Not a PING: the first call examines the server and loads the library.
                    await client.queue("holdfast").stats()
                return client
            except TimeoutError:
                raise last or Unavailable(
                    f"no server answered within {options.wait_for_server:g} s; is it running, and "
                    "is --url right? --wait-for-server SECONDS waits longer"
                ) from None
            except TryAgain as error:
                last = error
                if time.monotonic() >= give_up:
                    raise
                event(log, logging.WARNING, "waiting for the server", error=str(error))
                await asyncio.sleep(0.1)

    def reload(self) -> None:
        """Read the tokens again; they hold at once, also for who is inside. Raises InvalidArgument,
        and then the old ones stay."""
        path = self.config.options.token_file
        if path is None:
            return
        found = tokens.read(path)
        self.gate.replace(found)
        if warning := tokens.exposed(path):
            event(log, logging.WARNING, "token file", problem=warning)
        if not found:
            event(log, logging.WARNING, "token file", problem=f"no token in {path}: nobody gets in")
        event(log, logging.INFO, "tokens read", count=len(found))

    # ---- stop -----------------------------------------------------------------------------

    async def stop(self) -> None:
        """Ends within the grace period. Never raises: what went wrong is in the log."""
        grace = self.config.options.grace
        event(
            log, logging.INFO, "stopping", connections=self.meter.connections, grace_seconds=grace
        )
        began = time.monotonic()
        await self._end(grace)
        event(
            log,
            logging.INFO,
            "stopped",
            took_seconds=round(time.monotonic() - began, 3),
            ran_seconds=round(time.monotonic() - self._since, 3),
            connections=self.meter.connected,
            refused=self.meter.refused,
            turned_away=self.gate.failures,
        )

    async def _end(self, grace: float) -> None:
        doors = list(self.doors.items())
        began = time.monotonic()

        async def ended(name: str, step: Awaitable[None]) -> None:
            try:
                await step
            except Exception:
                log.exception("a door failed to stop", extra={"fields": {"door": name}})

        try:
            async with asyncio.timeout(max(grace * _CUT, 0.5)):
                await asyncio.gather(*(ended(name, door.quiet()) for name, door in doors))
                left = max(grace * _FINISH - (time.monotonic() - began), 0)
                await asyncio.gather(*(ended(name, door.close(left)) for name, door in doors))
        except TimeoutError:
            event(log, logging.ERROR, "doors cut off", grace_seconds=grace)
        self.doors.clear()
        if self._client is not None:
            try:
                async with asyncio.timeout(max(grace * (1 - _CUT), 0.5)):
                    await self._client.close()
            except (TimeoutError, HoldfastError, OSError) as error:
                event(log, logging.WARNING, "connection not closed", error=str(error))
            self._client = None


async def _opened(name: str, bind: Bind, door: Door) -> None:
    try:
        await door.open()
    except (OSError, RuntimeError) as error:
        # grpc raises RuntimeError for an address it cannot have.
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise InvalidArgument(
            f"the {name} door cannot listen on {bind}: {reason}; is another server there? "
            "port 0 takes one that is free"
        ) from error


# ---- the doors ----------------------------------------------------------------------------


def _resp(service: Service, broker: Broker, bind: Bind) -> Door:
    from holdfast.server.resp.door import RespDoor

    tls = service.config.tls
    return RespDoor(
        broker,
        service.gate,
        service.meter,
        bind.host,
        bind.port,
        tls=tls.context() if tls else None,
    )


def _grpc(service: Service, broker: Broker, bind: Bind) -> Door:
    try:
        import grpc  # noqa: F401
    except ModuleNotFoundError:
        raise Unsupported(
            "the gRPC door needs more packages: pip install 'holdfast[server]'; "
            "--grpc off opens the RESP door alone"
        ) from None
    from holdfast.server.grpc.door import GrpcDoor

    return GrpcDoor(
        broker,
        service.gate,
        service.meter,
        bind.host,
        bind.port,
        tls=service.config.tls,
        reflection=service.config.options.reflection,
    )


# Only what is asked for is imported: the RESP door needs none of gRPC's packages.
_MAKERS: dict[str, Callable[[Service, Broker, Bind], Door]] = {"resp": _resp, "grpc": _grpc}
