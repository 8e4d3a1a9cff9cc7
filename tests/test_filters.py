"""Filters: one set of vectors, decided the same by Python and by the engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from holdfast import Client, Filter, InvalidArgument, Outgoing, Topic, filters
from tests.engine.seats import take_all

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "filters.json").read_text("utf-8")
)
by_name = pytest.mark.parametrize("vector", VECTORS, ids=[v["says"] for v in VECTORS])


@by_name
def test_python_decides_as_the_vectors_say(vector: dict[str, Any]) -> None:
    wanted = Filter.from_json(json.dumps(vector["filter"]))
    for attributes in vector["matches"]:
        assert wanted.matches(attributes), attributes
    for attributes in vector["misses"]:
        assert not wanted.matches(attributes), attributes


def decided(topic: Topic, wanted: Filter, candidates: list[dict[str, str]]) -> list[bool]:
    """What the engine makes of each, with whatever else a message may carry before its attributes."""
    seat = topic.subscribe("filtered", filter=wanted)
    got: list[bool] = []
    dresses: list[dict[str, Any]] = [{}, {"ttl": 99}, {"group": "g"}, {"ttl": 99, "group": "gg"}]
    for attributes in candidates:
        answers = set()
        for dress in dresses:
            topic.publish_many([Outgoing(b"x", attributes=attributes, **dress)])
            answers.add(bool(take_all(seat)))
        assert len(answers) == 1, f"{attributes}: it depends on what else is there"
        got += answers
    return got


@by_name
def test_the_engine_decides_as_the_vectors_say(topic: Topic, vector: dict[str, Any]) -> None:
    wanted = Filter.from_json(json.dumps(vector["filter"]))
    right = [True] * len(vector["matches"]) + [False] * len(vector["misses"])
    assert decided(topic, wanted, vector["matches"] + vector["misses"]) == right


texts = st.text(st.sampled_from('ab"\\%é漢'), max_size=3)
attribute_names = st.sampled_from(["a", "b", "1", "all"])
leaves = st.one_of(
    st.builds(filters.equals, attribute_names, texts),
    st.builds(filters.any_of, attribute_names, st.lists(texts, max_size=3)),
    st.builds(filters.prefix, attribute_names, texts),
    st.builds(filters.exists, attribute_names, st.booleans()),
)
trees = st.recursive(
    leaves,
    lambda inner: st.builds(
        lambda a, b, both: a & b if both else a | b, inner, inner, st.booleans()
    ),
    max_leaves=5,
)
candidates = st.lists(st.dictionaries(attribute_names, texts, max_size=3), min_size=1, max_size=5)


@pytest.mark.only("standalone", "redis7", reason="the functions are the same everywhere")
@hypothesis_settings(max_examples=60)
@given(trees, candidates)
@pytest.mark.slow
def test_python_and_the_engine_agree(
    hf: Client, topic: Topic, wanted: Filter, many: list[dict[str, str]]
) -> None:
    assert decided(topic, wanted, many) == [wanted.matches(one) for one in many]


@given(trees)
def test_a_filter_survives_its_journey_as_json(wanted: Filter) -> None:
    assert Filter.from_json(wanted.to_json()) == wanted
    assert hash(Filter.from_json(wanted.to_json())) == hash(wanted)


def test_joining_is_flat() -> None:
    a, b, c = (filters.exists(name) for name in "abc")
    assert json.loads((a & b & c).to_json()) == {
        "all": [{"attribute": name, "exists": True} for name in "abc"]
    }
    assert set(json.loads((a | b & c).to_json())) == {"any"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "must be JSON"),
        ("{", "must be JSON"),
        ("[]", "must be an object"),
        ('"x"', "must be an object"),
        ("{}", "has nothing"),
        ('{"all": {}}', "must be a list"),
        ('{"all": [], "any": []}', "has all, any"),
        ('{"all": ["x"]}', "must be an object"),
        ('{"attribute": "k"}', "has attribute"),
        ('{"equals": "x"}', "has equals"),
        ('{"attribute": "k", "equals": "x", "prefix": "x"}', "has attribute, equals, prefix"),
        ('{"attribute": "k", "like": "x"}', "has attribute, like"),
        ('{"attribute": "", "equals": "x"}', "attribute's name"),
        ('{"attribute": 5, "equals": "x"}', "attribute's name"),
        ('{"attribute": "k", "equals": 5}', "must be text, not 5"),
        ('{"attribute": "k", "prefix": null}', "must be text, not None"),
        ('{"attribute": "k", "in": "x"}', "must be a list of texts"),
        ('{"attribute": "k", "in": [5]}', "must be text, not 5"),
        ('{"attribute": "k", "exists": 1}', "must be true or false"),
        (json.dumps({"any": [{"attribute": "k", "exists": True}] * 100}), "may have 100 parts"),
        ('{"all": [' * 10 + "]}" * 10, "8 deep"),
    ],
)
def test_what_is_no_filter_is_refused(text: str, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        Filter.from_json(text)


def test_the_largest_filter_there_may_be_is_taken(topic: Topic) -> None:
    wanted = Filter({"any": [{"attribute": "k", "equals": str(n)} for n in range(99)]})
    assert decided(topic, wanted, [{"k": "98"}, {"k": "99"}]) == [True, False]
