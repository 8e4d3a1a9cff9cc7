"""Foreign errors, understood in one place: redis-py's exceptions become Holdfast's."""

from __future__ import annotations

from redis import exceptions as theirs

from holdfast import errors

# redis-py drops the first word where it has a class for it.
_WORDS: tuple[tuple[type[Exception], str], ...] = (
    (theirs.NoPermissionError, "NOPERM"),
    (theirs.OutOfMemoryError, "OOM"),
    (theirs.ReadOnlyError, "READONLY"),
    (theirs.MasterDownError, "MASTERDOWN"),
    (theirs.ClusterDownError, "CLUSTERDOWN"),
    (theirs.TryAgainError, "TRYAGAIN"),
    (theirs.BusyLoadingError, "LOADING"),
    (theirs.AuthenticationError, "NOAUTH"),
)


def _text(error: Exception) -> str:
    text = str(error)
    for cls, word in _WORDS:
        if isinstance(error, cls) and not text.startswith(word):
            return f"{word} {text}"
    return text


def no_function(error: Exception) -> bool:
    return "Function not found" in str(error)


def unknown_command(error: Exception) -> bool:
    return "unknown command" in str(error).lower()


def on_its_way(error: Exception) -> bool:
    """The slot is being moved, and the node is right: it is too early to ask others."""
    return isinstance(error, theirs.TryAgainError)


def refused(error: Exception) -> bool:
    """A wrong password and the like: no use in trying again."""
    return isinstance(error, theirs.AuthenticationError | theirs.AuthorizationError)


def passing(error: Exception) -> bool:
    """Did the server refuse before doing anything, for a reason that goes away by itself?"""
    return isinstance(translated(error), errors.Unavailable)


def translated(error: Exception) -> errors.HoldfastError:
    if isinstance(error, errors.HoldfastError):
        return error
    text = _text(error)
    if "undeclared key" in text:
        return errors.Unsupported(
            f"this server demands that a function names all its keys beforehand, which those of a queue "
            f"cannot: {text}; see docs/servers.md"
        )
    return errors.from_server(text)


def ours(error: Exception, doing: str) -> Exception:
    """What may leave the client instead of this: the last resort, for what nobody has foreseen. The
    caller raises it from the error, so that the cause is told."""
    if isinstance(error, errors.HoldfastError | Warning):
        return error
    if isinstance(error, theirs.RedisError):
        return translated(error)
    if isinstance(error, OSError):
        return errors.Unavailable(f"{doing}: {error}")
    return errors.HoldfastError(
        f"{doing}: the server's answer makes no sense to this client ({type(error).__name__}: {error}); "
        "see docs/servers.md, and look for what is between the two"
    )
