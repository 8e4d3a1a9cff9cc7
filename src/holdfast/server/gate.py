"""The gate: a secret or a certificate's name in, a Principal out. All doors ask the same one.

Whether the gate is open is decided once, when it is made. Tokens may be replaced while the server
runs, and taking away the last one must lock everybody out, not let everybody in.

A secret is found by its SHA-256 and that is compared in constant time. What the time of the lookup
could tell is about the hash of what the caller sent, which the caller knows already; comparing with
every token in turn would tell no less and cost each gRPC call more with each token.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Sequence

from holdfast.errors import Unauthenticated
from holdfast.server.access import EVERYBODY, Principal
from holdfast.server.logs import Seldom
from holdfast.server.tokens import Token, digest_of

log = logging.getLogger("holdfast.server.gate")


class Gate:
    def __init__(self, tokens: Sequence[Token] = (), *, required: bool | None = None) -> None:
        """`required`: whether a credential is asked for; None: if there are tokens."""
        self.open = not (bool(tokens) if required is None else required)
        self.failures = 0
        """How often somebody was turned away."""
        self._tell = Seldom(log, logging.WARNING, "turned away")
        self._by_digest: dict[bytes, tuple[bytes, Principal]] = {}
        self._by_certificate: dict[str, Principal] = {}
        self._by_name: dict[str, Principal] = {}
        self.generation = 0
        """Grows whenever the tokens change: whoever is inside is then looked at again."""
        self.replace(tokens)

    def replace(self, tokens: Sequence[Token]) -> None:
        """From now on these may enter or stay, and no others."""
        principals = [(token, token.principal()) for token in tokens]
        self._by_name = {who.name: who for _, who in principals}
        self.generation += 1
        self._by_digest = {
            t.digest: (t.digest, who) for t, who in principals if t.digest is not None
        }
        self._by_certificate = {
            t.certificate: who for t, who in principals if t.certificate is not None
        }

    def enter(self, secret: str | None, *, peer: str | None = None) -> Principal:
        """Who this is. Raises Unauthenticated for no secret, or a wrong one, unless open.

        `peer`: where the caller is, for the log.
        """
        if self.open:
            return EVERYBODY
        if secret is None:
            self._count("no token", peer)
            raise Unauthenticated("this server asks for a token, and none was given")
        digest = digest_of(secret)
        known, who = self._by_digest.get(digest, (b"", None))
        if who is not None and hmac.compare_digest(known, digest):
            return who
        self._count("wrong token", peer)
        # Never the secret, not even a part: it may be right elsewhere, or but one letter wrong.
        raise Unauthenticated("the token is not one of this server's: wrong, or revoked")

    def enter_certificate(self, common_name: str) -> Principal | None:
        """Who shows this certificate, which the TLS layer has verified; None if no token names it."""
        return EVERYBODY if self.open else self._by_certificate.get(common_name)

    def still(self, who: Principal) -> Principal:
        """Somebody who entered earlier, with the rights they have now. Raises Unauthenticated if their
        token was revoked meanwhile."""
        if self.open:
            return who
        found = self._by_name.get(who.name)
        if found is None or found.key != who.key:
            raise Unauthenticated("the token was revoked")
        return found

    def _count(self, why: str, peer: str | None) -> None:
        self.failures += 1
        self._tell(why=why, peer=peer)

    def __repr__(self) -> str:
        return "<Gate open>" if self.open else f"<Gate of {len(self._by_digest)} tokens>"
