"""Where the server is: a URL taken apart.

    redis://[user:password@]host[:port][/db]        valkey:// is the same
    rediss://…                                      with TLS; options ca=, cert=, key=, verify=no
    unix:///path/to.sock[?db=0]
    redis://h1:7000,h2:7000,h3:7000                 several hosts, or ?cluster=true: a cluster
    redis+sentinel://h1:26379,h2:26379/mymaster     (rediss+sentinel://) what sentinels watch

Passwords never show: not in repr, not in errors, not in `Address.safe`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import parse_qs, quote, unquote, urlsplit

from holdfast.errors import InvalidArgument

# After so many seconds without an answer others are asked whether the server is still the one.
PATIENCE = 0.5
# For making a connection, seconds: where a packet was lost, a second try is better than a long wait.
CONNECT = 1.5

Topology = Literal["standalone", "cluster", "sentinel"]
_SCHEMES = {"redis", "rediss", "valkey", "valkeys"}
_EXAMPLE = "for example redis://localhost:6379/0, unix:///run/valkey.sock or redis+sentinel://h:26379/mymaster"


@dataclass(frozen=True, slots=True)
class Address:
    topology: Topology
    hosts: tuple[tuple[str, int], ...]
    path: str = ""
    db: int = 0
    tls: bool = False
    master: str = ""
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    tls_options: dict[str, Any] = field(default_factory=dict, repr=False, hash=False)

    @property
    def url(self) -> str:
        """A URL that redis-py takes, of the first host, password included."""
        auth = ""
        if self.password is not None:
            auth = f"{quote(self.username or '', safe='')}:{quote(self.password, safe='')}@"
        if self.path:
            return f"unix://{auth}{quote(self.path)}?db={self.db}"
        host, port = self.hosts[0]
        shown = f"[{host}]" if ":" in host else host
        return f"{'rediss' if self.tls else 'redis'}://{auth}{shown}:{port}/{self.db}"

    def options(self, host: str, port: int, timeout: float) -> dict[str, Any]:
        """What a redis-py Connection takes, of the kind that `kind` names."""
        common: dict[str, Any] = {
            "username": self.username,
            "password": self.password,
            "db": self.db,
            "socket_timeout": min(timeout, CONNECT),
            "socket_connect_timeout": min(timeout, CONNECT),
            "driver_info": None,
            "protocol": 2,
        }
        if self.path:
            return common | {"path": self.path}
        return common | {"host": host, "port": port} | self.tls_options

    @property
    def kind(self) -> Literal["unix", "tls", "tcp"]:
        return "unix" if self.path else "tls" if self.tls else "tcp"

    @property
    def safe(self) -> str:
        """The same for people to read: no password."""
        if self.path:
            return f"unix://{self.path}"
        shown = ",".join(f"{host}:{port}" for host, port in self.hosts)
        end = f"/{self.master}" if self.master else f"/{self.db}"
        scheme = ("rediss" if self.tls else "redis") + ("+sentinel" if self.master else "")
        return f"{scheme}://{shown}{end}"


def _hosts(netloc: str, default: int) -> tuple[tuple[str, int], ...]:
    found = []
    for part in netloc.split(","):
        try:
            split = urlsplit(f"//{part}")
            found.append((split.hostname or "localhost", split.port or default))
        except ValueError as error:
            raise InvalidArgument(f"{part!r} is no host and port: {error}; {_EXAMPLE}") from None
    return tuple(found)


def _one(options: dict[str, list[str]], name: str) -> str | None:
    values = options.pop(name, None)
    return values[-1] if values else None


def _yes(text: str | None, name: str) -> bool:
    if text is None:
        return False
    if text.lower() not in ("true", "false", "yes", "no", "1", "0"):
        raise InvalidArgument(f"{name} in the URL must be true or false, not {text!r}")
    return text.lower() in ("true", "yes", "1")


def _tls(options: dict[str, list[str]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, theirs in (("ca", "ssl_ca_certs"), ("cert", "ssl_certfile"), ("key", "ssl_keyfile")):
        if value := _one(options, name):
            found[theirs] = value
    verify = _one(options, "verify")
    if verify is not None and not _yes(verify, "verify"):
        found |= {"ssl_cert_reqs": "none", "ssl_check_hostname": False}
    return found


def parse(url: str) -> Address:
    """Raises InvalidArgument, without repeating a password, if the URL cannot be one."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        raise InvalidArgument(f"a server's URL must have a scheme; {_EXAMPLE}")
    plain = scheme.removesuffix("+sentinel")
    sentinel = plain != scheme
    if not (plain in _SCHEMES or (scheme == "unix" and not sentinel)):
        raise InvalidArgument(f"Holdfast cannot speak {scheme}://; {_EXAMPLE}")
    before, _, query = rest.partition("?")
    netloc, slash, path = before.partition("/")
    auth, at, netloc = netloc.rpartition("@")
    user, _, password = auth.partition(":")
    options = parse_qs(query, keep_blank_values=True)
    common: dict[str, Any] = {
        "username": (unquote(user) or None) if at else None,
        "password": unquote(password) if at else None,
        "tls": plain in ("rediss", "valkeys"),
    }
    db = _one(options, "db")
    if common["tls"]:
        common["tls_options"] = _tls(options)
    cluster = _yes(_one(options, "cluster"), "cluster")
    if options:
        raise InvalidArgument(f"the URL has unknown options: {', '.join(sorted(options))}")
    if scheme == "unix":
        common["topology"], common["hosts"], common["path"] = (
            "standalone",
            (),
            unquote(slash + path),
        )
    else:
        common["hosts"] = _hosts(netloc, 26379 if sentinel else 6379)
        common["topology"] = "standalone"
        if sentinel:
            common["topology"] = "sentinel"
            common["master"], _, path = unquote(path).partition("/")
            if not common["master"]:
                raise InvalidArgument("a sentinel URL must name the master: …:26379/mymaster")
        elif cluster or len(common["hosts"]) > 1:
            common["topology"] = "cluster"
        db = db or path or None
    if db is not None and not db.isdigit():
        raise InvalidArgument(f"the database in the URL must be a number, not {db!r}")
    common["db"] = int(db or 0)
    if common["topology"] == "cluster" and common["db"]:
        raise InvalidArgument("a cluster has database 0 only")
    return Address(**common)
