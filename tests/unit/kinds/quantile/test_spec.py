"""Quantiles: what a spec takes and refuses, how it fits a stream, and its life as columns."""

import math
import pickle
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import everquery as eq
from everquery.kinds.quantile.spec import LONGEST_WINDOW
from everquery.queries.block import blocks_of_queries, check_fit
from everquery.queries.changes import Register, RegisterBlocks
from everquery.registry.codec import decode_change, encode_change

TRADES = eq.Stream("trades", key="symbol", time="ts", attributes=["price", "volume"])
KINDS = {"quantile": eq.Quantile, "border": eq.Border, "threshold": eq.Threshold}


def quantile(query_id="q", attribute="price", *, phi=0.5, epsilon=0.01, **fields):
    return eq.Quantile(query_id, attribute, phi=phi, epsilon=epsilon, **fields)


def test_what_a_spec_holds():
    query = eq.Quantile(
        "q", attribute="price", phi=1, epsilon=0.25, last=4, key="IBM", owner="ann",
        labels={"team": "fx"}, ttl=timedelta(hours=8), throttle=5,
    )  # fmt: skip
    assert (query.kind, query.attribute, query.phi, query.epsilon) == (
        "quantile", "price", 1.0, 0.25,
    )  # fmt: skip
    assert type(query.phi) is float
    assert (query.last, query.by_key, query.key) == (4, False, "IBM")
    assert query.box == eq.Box({"price": eq.Interval()})
    assert query.box["price"].half_open()[0] == -math.inf
    assert math.isnan(query.box["price"].half_open()[1])
    assert pickle.loads(pickle.dumps(query)) == query
    assert hash(replace(query)) == hash(query)
    assert query != replace(query, attribute="volume")


def test_the_box_is_no_argument():
    with pytest.raises(TypeError, match="box"):
        eq.Quantile("q", "price", box={"price": (1, 2)}, phi=0.5, epsilon=0.1)
    with pytest.raises(TypeError, match="phi"):
        eq.Quantile("q", "price", epsilon=0.1)


def test_numpy_scalars_are_taken():
    query = quantile(phi=np.float32(0.5), epsilon=np.float64(0.25), last=np.int16(10))
    assert query == quantile(phi=0.5, epsilon=0.25, last=10)
    assert [type(each) for each in (query.phi, query.epsilon, query.last)] == [float, float, int]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"attribute": 7}, "attribute is 7; it must be the name of one"),
        ({"attribute": ["price"]}, "it must be the name of one"),
        ({"attribute": None}, "it must be the name of one"),
        ({"phi": 1.5}, "phi is 1.5; it must be above 0 and at most 1"),
        ({"phi": 0}, "phi is 0.0; it must be above 0"),
        ({"phi": -0.1}, "it must be above 0"),
        ({"phi": math.inf}, "phi is inf; it must be above 0"),
        ({"phi": math.nan}, "phi is NaN"),
        ({"phi": True}, "phi is True, which is not a number"),
        ({"phi": np.True_}, "which is not a number"),
        ({"phi": "0.5"}, "phi is '0.5', which is not a number"),
        ({"phi": None}, "phi is None, which is not a number"),
        ({"phi": Decimal("0.99")}, "float64 can't hold exactly"),
        ({"phi": ()}, "give at least one"),
        ({"phi": (0.5, 1.5)}, "phi is 1.5; it must be above 0"),
        ({"phi": (0.5, True)}, "phi is True, which is not a number"),
        ({"phi": (0.5, 1, 0.5)}, "phi has 0.5 twice"),
        ({"phi": {0.5, 1}}, "which is not a number"),
        ({"phi": "half"}, "which is not a number"),
        ({"epsilon": 0}, "epsilon is 0.0; it must be above 0 and below 1"),
        ({"epsilon": 1}, "epsilon is 1.0; it must be above 0 and below 1"),
        ({"epsilon": -1}, "it must be above 0 and below 1"),
        ({"epsilon": math.nan}, "epsilon is NaN"),
        ({"epsilon": False}, "which is not a number"),
        ({"epsilon": (0.1,)}, "which is not a number"),
        ({"epsilon": None}, "epsilon is None"),
        ({"last": 0}, "last is 0; it must be 1 or more: an empty window has no quantile"),
        ({"last": -5}, "an empty window"),
        ({"last": 2**31}, "last is 2147483648; it must be at most 2,147,483,647 rows"),
        ({"last": 500.0}, "last is 500.0; it must be a whole number"),
        ({"last": True}, "it must be a whole number"),
        ({"last": "500"}, "it must be a whole number"),
        ({"last": 99}, "a window of 99 rows is shorter than 1/epsilon = 100 rows"),
        ({"by_key": 1}, "by_key is 1; it is true or false"),
        ({"by_key": None}, "it is true or false"),
        ({"by_key": True, "key": "IBM"}, "it has a key already, 'IBM'"),
        ({"by_key": True, "key": 0}, "it has a key already, 0"),
        ({"ttl": -1}, "ttl is -1"),
    ],
)
def test_bad_specs(fields, said):
    with pytest.raises(eq.InvalidQueryError) as caught:
        quantile(**fields)
    assert said in str(caught.value)
    assert str(caught.value).startswith("query '")


def test_a_bad_id_is_told_first():
    with pytest.raises(eq.InvalidQueryError, match="query id is empty"):
        eq.Quantile("", None, phi=9, epsilon=9)


class TestWindows:
    def test_the_sentence(self):
        with pytest.raises(eq.InvalidQueryError) as caught:
            quantile(last=50)
        assert str(caught.value) == (
            "query 'q': a window of 50 rows is shorter than 1/epsilon = 100 rows, so no rank but"
            " the exact one would do; give epsilon=0.02 or more, or last=100 or more"
        )

    @pytest.mark.parametrize(
        ("epsilon", "shortest"),
        [(0.01, 100), (0.1, 10), (0.3, 4), (1 / 3, 3), (0.005, 200), (1 / 49, 49), (0.999, 2)],
    )
    def test_the_shortest(self, epsilon, shortest):
        assert quantile(epsilon=epsilon, last=shortest).last == shortest
        with pytest.raises(eq.InvalidQueryError, match=f"last={shortest} or more"):
            quantile(epsilon=epsilon, last=shortest - 1)

    def test_the_longest(self):
        assert quantile(epsilon=1e-9, last=LONGEST_WINDOW).last == LONGEST_WINDOW

    @pytest.mark.parametrize(
        ("epsilon", "last", "advice"),
        [
            (5e-324, 4, "give epsilon=0.25 or more"),
            (0.5, 1, "give last=2 or more"),
            (5e-324, 1, "give more of both"),
        ],
    )
    def test_only_what_is_possible_is_advised(self, epsilon, last, advice):
        with pytest.raises(eq.InvalidQueryError) as caught:
            quantile(epsilon=epsilon, last=last)
        assert str(caught.value).endswith(f"; {advice}")

    @given(
        st.integers(1, LONGEST_WINDOW) | st.integers(1, 100),
        st.floats(0, 1, exclude_min=True, exclude_max=True),
    )
    def test_what_is_advised_is_taken(self, last, epsilon):
        try:
            quantile(epsilon=epsilon, last=last)
        except eq.InvalidQueryError as error:
            advice = str(error).partition("; give ")[2]
        else:
            return
        for part in advice.split(", or ") if "=" in advice else ():
            name, _, number = part.removesuffix(" or more").partition("=")
            fields = {"epsilon": epsilon, "last": last}
            quantile(**fields | {name: float(number) if name == "epsilon" else int(number)})


class TestParts:
    def test_of_others_are_themselves(self):
        for query in (eq.Range("r", {}), eq.Threshold("t", {}, total=1), quantile()):
            assert query.parts() == (query,)
            assert query.parts()[0] is query

    @pytest.mark.parametrize("phi", [(0.5, 0.99), [0.5, 0.99], np.array([0.5, 0.99])])
    def test_one_for_each_rank(self, phi):
        query = quantile("latency", phi=phi, last=500, by_key=True, owner="ann", ttl=5)
        assert query.phi == (0.5, 0.99)
        common = {"last": 500, "by_key": True, "owner": "ann", "ttl": 5}
        assert query.parts() == (
            quantile("latency[0.5]", phi=0.5, **common),
            quantile("latency[0.99]", phi=0.99, **common),
        )

    def test_a_sequence_of_one_is_that_one(self):
        assert quantile(phi=[0.5]) == quantile(phi=0.5)

    def test_their_ids_must_not_be_too_long(self):
        assert len(quantile("x" * 1_019, phi=(0.5, 1)).parts()[0].id) == 1_024
        with pytest.raises(eq.InvalidQueryError, match=r"1,025 bytes.*one for each phi"):
            quantile("x" * 1_020, phi=(0.5, 1))
        assert quantile("x" * 1_024, phi=[0.5]).phi == 0.5

    def test_only_parts_become_a_block(self):
        query = quantile(phi=(0.5, 1))
        check_fit(query, TRADES)
        with pytest.raises(eq.InvalidQueryError, match="composite; register its parts"):
            blocks_of_queries([query], TRADES)
        (block,) = blocks_of_queries(query.parts(), TRADES)
        assert block.ids.to_pylist() == ["q[0.5]", "q[1.0]"]


class TestFit:
    def test_unknown_attributes(self):
        with pytest.raises(eq.InvalidQueryError, match="'prise'; did you mean 'price'"):
            check_fit(quantile(attribute="prise"), TRADES)

    def test_by_key_needs_a_key(self):
        keyless = eq.Stream("s", attributes=["price"])
        check_fit(quantile(), keyless)
        with pytest.raises(eq.InvalidQueryError, match="query 'q': by_key needs a stream with a"):
            check_fit(quantile(by_key=True), keyless)
        with pytest.raises(eq.InvalidQueryError, match="has no key"):
            check_fit(quantile(key="IBM"), keyless)

    def test_spans_need_times(self):
        with pytest.raises(eq.InvalidQueryError, match="throttle needs"):
            check_fit(quantile(throttle=5), eq.Stream("s", attributes=["price"]))

    @pytest.mark.parametrize(
        ("fields", "across"), [({}, True), ({"by_key": True}, False), ({"key": "IBM"}, False)]
    )
    def test_which_look_across_keys(self, fields, across):
        assert quantile(**fields).looks_across_keys is across


def queries():
    return [
        quantile("a", last=500, owner="ann", ttl=timedelta(seconds=5)),
        quantile("b", "volume", phi=0.1 + 0.2, epsilon=1e-300),
        quantile("c", phi=1, key="IBM", labels={"team": "fx"}),
        quantile("d", by_key=True, throttle=2.5),
        eq.Threshold("t", {"price": (1, 2)}, total=2**63 - 1),
        eq.Border("e", {}),
    ]


def test_blocks_have_all_numbers():
    blocks = blocks_of_queries(queries()[:4], TRADES)
    assert [block.ids.to_pylist() for block in blocks] == [["a", "d"], ["b"], ["c"]]
    block = blocks[0]
    assert block.attributes == (0,)
    assert np.all(block.low == -np.inf)
    assert np.all(np.isnan(block.high))
    assert block.options["by_key"].tolist() == [False, True]
    assert {name: column.tolist() for name, column in block.numbers.items()} == {
        "phi": [0.5, 0.5],
        "epsilon": [0.01, 0.01],
        "last": [500, 0],
        "by": [0, 0],
    }
    dtypes = [str(column.dtype) for column in block.numbers.values()]
    assert dtypes == ["float64", "float64", "int64", "float64"]
    assert blocks[1].attributes == (1,)
    assert blocks[2].take(np.array([0])).numbers["phi"].tolist() == [1.0]


class TestInTheLog:
    def test_specs_read_back_equal(self):
        change = Register((*queries(), quantile("several", phi=(0.5, 0.99))))
        ((operation, count, payload),) = encode_change(change, TRADES)
        assert count == 7
        again = decode_change(operation, payload, TRADES)
        assert again == change
        assert [query.box for query in again.queries] == [query.box for query in change.queries]
        assert b'"attribute": "price"' in payload

    def test_blocks_read_back_equal(self):
        change = RegisterBlocks(blocks_of_queries(queries(), TRADES))
        ((operation, _, payload),) = encode_change(change, TRADES)
        again = decode_change(operation, payload, TRADES)
        for block, other in zip(change.blocks, again.blocks, strict=True):
            assert (block.kind, block.attributes) == (other.kind, other.attributes)
            assert block.ids == other.ids
            np.testing.assert_array_equal(block.high, other.high)
            assert list(block.numbers) == list(other.numbers)
            for name, column in block.numbers.items():
                assert column.dtype == other.numbers[name].dtype
                np.testing.assert_array_equal(column, other.numbers[name])
            for name, column in block.options.items():
                np.testing.assert_array_equal(column, other.options[name])
