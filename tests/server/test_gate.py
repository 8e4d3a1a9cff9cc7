"""Who gets in."""

from __future__ import annotations

import pytest

from holdfast.errors import Unauthenticated
from holdfast.server import tokens
from holdfast.server.access import EVERYBODY
from holdfast.server.gate import Gate


def test_without_tokens_the_gate_is_open_for_everybody() -> None:
    gate = Gate([])
    assert gate.open
    assert gate.enter(None) is EVERYBODY
    assert gate.enter("anything") is EVERYBODY
    assert gate.enter_certificate("anybody") is EVERYBODY


def test_a_right_secret_enters_as_its_token() -> None:
    shop, secret = tokens.new("shop", ["send queue:orders.*"])
    other, _ = tokens.new("other", ["all *:*"])
    who = Gate([other, shop]).enter(secret)
    assert who.name == "shop"
    assert who.may("send", "queue", "orders.eu")
    assert not who.may("receive", "queue", "orders.eu")
    assert not who.may("send", "queue", "invoices")


@pytest.mark.parametrize(
    "given",
    [None, "", "hf_wrong", "é\udcff\x00", "nearly"],
    ids=["none", "empty", "wrong", "not-unicode", "one-letter-short"],
)
def test_no_secret_or_a_wrong_one_is_turned_away_and_not_repeated(given: str | None) -> None:
    token, secret = tokens.new("shop", ["all *:*"])
    gate = Gate([token])
    given = secret[:-1] if given == "nearly" else given
    with pytest.raises(Unauthenticated) as caught:
        gate.enter(given)
    assert not given or given not in str(caught.value)
    assert gate.failures == 1


def test_the_hash_of_a_secret_is_no_secret() -> None:
    token, _ = tokens.new("shop", ["all *:*"])
    assert token.digest is not None
    with pytest.raises(Unauthenticated):
        Gate([token]).enter(token.digest.hex())


def test_replaced_tokens_count_from_then_on() -> None:
    old, old_secret = tokens.new("old", ["all *:*"])
    new, new_secret = tokens.new("new", ["all *:*"])
    gate = Gate([old])
    gate.replace([new])
    assert gate.enter(new_secret).name == "new"
    with pytest.raises(Unauthenticated):
        gate.enter(old_secret)


def test_taking_away_the_last_token_locks_everybody_out() -> None:
    token, secret = tokens.new("shop", ["all *:*"])
    gate = Gate([token])
    gate.replace([])
    assert not gate.open
    with pytest.raises(Unauthenticated):
        gate.enter(secret)
    with pytest.raises(Unauthenticated):
        gate.enter(None)


def test_a_gate_that_needs_tokens_is_closed_without_any() -> None:
    with pytest.raises(Unauthenticated):
        Gate([], required=True).enter(None)


def test_a_certificate_enters_as_the_token_that_names_it_and_no_other() -> None:
    token = tokens.Token("shop", ("send queue:a",), certificate="shop.example")
    gate = Gate([token])
    assert not gate.open
    found = gate.enter_certificate("shop.example")
    assert found is not None
    assert found.name == "shop"
    assert gate.enter_certificate("SHOP.example") is None
    assert gate.enter_certificate("") is None


def test_nothing_about_a_token_shows_in_a_repr() -> None:
    token, secret = tokens.new("shop", ["all *:*"])
    assert token.digest is not None
    text = repr(token) + repr(Gate([token])) + repr(Gate([token]).enter(secret))
    assert secret not in text
    assert token.digest.hex() not in text
    assert repr(token.digest) not in text
