"""The embedded server: a real Valkey in a data folder, shared by every process that joins it.

    join()    use the server of a data folder, starting it if need be
    up()      start it and keep it although nobody uses it
    down()    stop it, whoever uses it
    status()  what runs, where, how durable
    home()    the data folder that all of these use by default
    binary()  the valkey-server they run

The first to join starts a keeper, the keeper runs the server, and the kernel's file locks say who
is still there: `keeper.py` tells the story. Nothing here imports the Redis client, so that joining
a running server costs about a millisecond.
"""

from holdfast.embedded.folder import home
from holdfast.embedded.lifecycle import Status, down, status, up
from holdfast.embedded.membership import Membership, join
from holdfast.embedded.wheel import binary

__all__ = ["Membership", "Status", "binary", "down", "home", "join", "status", "up"]
