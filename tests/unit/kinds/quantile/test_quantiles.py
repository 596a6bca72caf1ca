"""What quantile queries promise, and what they refuse, through an engine."""

import math
import pickle

import numpy as np
import pyarrow as pa
import pytest

import everquery as eq
from everquery.errors import (
    DuplicateQueryError,
    InvalidBatchError,
    InvalidQueryError,
    InvalidTableError,
    UnknownQueryError,
)
from everquery.kinds.quantile.exact_ranks import allowed_ranks, ranks_of

STREAM = eq.Stream("s", key="k", attributes=["x"])
TWO = eq.Stream("s", key="k", time="t", attributes=["x", "y"])
INF = math.inf
TOLD = ["query_id", "key", "seq", "value", "n"]


def quantile(name, phi=0.5, epsilon=0.01, **fields):
    return eq.Quantile(name, "x", phi=phi, epsilon=epsilon, **fields)


def engine_of(*queries, stream=STREAM):
    engine = eq.Engine(stream)
    engine.register(queries)
    return engine


def batch(values, keys="a"):
    keys = [keys] * len(values) if isinstance(keys, (str, int)) else keys
    return pa.table({"k": keys, "x": pa.array(values, pa.float64())})


def feed(engine, values, keys="a", columns=TOLD):
    notices = engine.process(batch(values, keys))
    return [tuple(row.values()) for row in notices.select(columns).to_pylist()]


def does(value, phi, epsilon, rows):
    """Tell whether a value has a rank among rows that does."""
    ranks, _ = allowed_ranks(phi, epsilon, len(rows))
    return not ranks.isdisjoint(ranks_of(value, sorted(rows)))


class TestNotices:
    def test_a_notice_says_what_is_known(self):
        engine = engine_of(quantile("m", owner="ann"))
        notices = engine.process(batch([3, 1, 2]))
        (row,) = notices.to_pylist()
        assert row.pop("notice_id")
        assert row == {
            "query_id": "m", "kind": "quantile", "event": "change", "key": "a", "time": None,
            "seq": 2, "reason": None, "x": 2.0, "held_back": None,
            "value": 2.0, "rank_low": 2, "rank_high": 2, "n": 3, "epsilon": 0.01,
        }  # fmt: skip

    def test_only_what_is_wrong_by_now_is_told_anew(self):
        engine = engine_of(quantile("m", epsilon=0.2))
        assert feed(engine, range(10)) == [("m", "a", 9, 4.0, 10)]
        assert feed(engine, [4, 4, 4, 4]) == []
        assert feed(engine, []) == []
        (told,) = feed(engine, [100] * 20)
        assert does(told[3], 0.5, 0.2, [*range(10), 4, 4, 4, 4, *[100] * 20])

    def test_one_notice_a_batch_at_the_lanes_last_event(self):
        engine = engine_of(quantile("all"), quantile("b", key="b"), quantile("each", by_key=True))
        assert feed(engine, [1, 2, 3, 4], ["b", "a", "b", "a"]) == [
            ("b", "b", 1, 1.0, 2),
            ("each", "b", 1, 1.0, 2),
            ("all", "a", 1, 2.0, 4),
            ("each", "a", 1, 2.0, 2),
        ]

    def test_the_first_row_is_told_and_one_row_is_every_rank(self):
        parts = quantile("m", phi=[1e-300, 0.5, 1], epsilon=0.999)
        assert [row[3] for row in feed(engine_of(parts), [7])] == [7.0] * 3

    def test_infinities_are_values(self):
        engine = engine_of(quantile("m", phi=[0.1, 0.5, 1]))
        assert [row[3] for row in feed(engine, [INF, -INF, 0])] == [-INF, 0.0, INF]

    def test_what_is_unknown_is_not_ranked(self):
        window = quantile("w", epsilon=0.5, last=2)
        engine = engine_of(quantile("m"), quantile("one", key="a"), window)
        told = [("m", "a", 2, 5.0, 1), ("one", "a", 2, 5.0, 1), ("w", "a", 2, 5.0, 1)]
        assert feed(engine, [None, math.nan, 5, None]) == told  # at the last that is ranked
        assert feed(engine, [None]) == []
        assert engine.stats()["dead_letters"] == 0
        assert engine.stats()["partial"] == 4
        feed(engine, [9, None, 7, math.nan])
        assert engine.answer("w").n == 2  # the last two that are ranked
        assert engine.answer("m").n == 3

    def test_both_zeros_are_one_value(self):
        engine = engine_of(quantile("m"))
        assert len(feed(engine, [0.0])) == 1
        assert feed(engine, [-0.0, 0.0, -0.0]) == []

    def test_a_stream_without_key(self):
        engine = eq.Engine(eq.Stream("s", attributes=["x"]))
        engine.register(quantile("m"))
        notices = engine.process(pa.table({"x": [1.0, 2.0, 3.0]}))
        assert notices.select(["key", "value"]).to_pylist() == [{"key": None, "value": 2.0}]
        assert engine.answer("m").value == 2.0
        with pytest.raises(InvalidQueryError, match="by_key needs a stream with a key"):
            engine.register(quantile("n", by_key=True))
        with pytest.raises(InvalidQueryError):
            engine.register(quantile("n", key="a"))

    @pytest.mark.parametrize("name", ["value", "n", "epsilon", "rank_low", "rank_high"])
    def test_an_attribute_with_the_name_of_a_column(self, name):
        engine = eq.Engine(eq.Stream("s", attributes=[name, "x"]))
        engine.register(eq.Quantile("m", name, phi=0.5, epsilon=0.01))
        notices = engine.process(pa.table({name: [3.0, 1.0, 5.0], "x": [9.0, 9.0, 9.0]}))
        (row,) = notices.to_pylist()
        assert row[name] == 5.0
        answer = {"value": 3.0, "n": 3, "epsilon": 0.01, "rank_low": 2, "rank_high": 2}
        assert row[f"quantile_{name}"] == answer.pop(name)
        assert {other: row[other] for other in answer} == answer
        assert engine.answer("m").value == 3.0

    def test_integer_keys(self):
        engine = engine_of(quantile("m", key=7), quantile("each", by_key=True))
        told = feed(engine, [1, 2, 3], [7, 8, 7])
        assert sorted(told) == [("each", 7, 1, 1.0, 2), ("each", 8, 0, 2.0, 1), ("m", 7, 1, 1.0, 2)]
        assert engine.answer("each", key=8).value == 2.0
        assert engine.answer("each", key=np.int32(8)).value == 2.0
        assert engine.answer("each", key="8").value is None
        assert engine.quantiles(phi=[1], key=7)[0].value == 3.0
        with pytest.raises(InvalidBatchError):
            feed(engine, [1], ["7"])

    def test_labels_come_along(self):
        engine = eq.Engine(STREAM, labels=True)
        engine.register(quantile("m", owner="ann", labels={"team": "fx"}))
        told = feed(engine, [1], columns=["query_id", "owner", "labels"])
        assert told == [("m", "ann", '{"team": "fx"}')]

    def test_grace_lets_rows_out_later(self):
        stream = eq.Stream("s", key="k", time="t", attributes=["x"], grace=10)
        engine = engine_of(quantile("m"), stream=stream)
        rows = {"k": ["a"] * 3, "t": [5, 1, 20], "x": [5.0, 1.0, 20.0]}
        notices = engine.process(pa.table(rows))
        assert notices.select(["time", "value", "n"]).to_pylist() == [
            {"time": 5, "value": 1.0, "n": 2}
        ]
        assert engine.flush().select(["time", "value", "n"]).to_pylist() == [
            {"time": 20, "value": 5.0, "n": 3}
        ]


class TestPromises:
    @pytest.mark.parametrize("last", [None, 100])
    @pytest.mark.parametrize("values", ["many", "few"])
    def test_after_every_batch_all_answers_do(self, last, values):
        random = np.random.default_rng(5)
        queries = [
            quantile(f"{phi} {epsilon}", phi=phi, epsilon=epsilon, last=last)
            for phi in (0.001, 0.3, 0.5, 0.99, 1)
            for epsilon in (0.01, 0.1, 0.5)
        ]
        engine = engine_of(*queries)
        told, rows = {}, []
        for size in (1, 1, 2, 3, 10, 50, 200, 1, 500, 7):
            new = random.integers(0, 5, size) if values == "few" else random.normal(size=size)
            rows.extend(new.tolist())
            told.update({row[0]: row[3] for row in feed(engine, new)})
            ranked = rows[-(last or len(rows)) :]
            for query in queries:
                assert does(told[query.id], query.phi, query.epsilon, ranked), query
                answer = engine.answer(query.id)
                assert answer.value == told[query.id]
                assert answer.n == len(ranked)
                assert answer.epsilon == query.epsilon

    def test_many_rows(self):
        random = np.random.default_rng(6)
        engine = engine_of(quantile("m", phi=[0.5, 0.999], epsilon=0.001))
        values = random.lognormal(size=200_000)
        for part in np.split(values, 20):
            engine.process(batch(part))
        exact = np.sort(values)
        for phi in (0.5, 0.999):
            answer = engine.answer(f"m[{phi}]")
            rank = np.searchsorted(exact, answer.value) + 1
            assert abs(rank - phi * exact.size) <= 0.001 * exact.size
            assert answer.rank_low <= rank <= answer.rank_high
        for phi, answer in zip((0.1, 0.9), engine.quantiles(phi=np.array([0.1, 0.9])), strict=True):
            rank = np.searchsorted(exact, answer.value) + 1
            assert abs(rank - phi * exact.size) <= answer.epsilon * exact.size

    def test_a_lane_begins_with_its_first_query_and_ends_with_its_last(self):
        engine = eq.Engine(STREAM, all_columns=True)
        feed(engine, [100, 100, 100])
        engine.register(quantile("m"))
        assert feed(engine, [1]) == [("m", "a", 3, 1.0, 1)]
        engine.register(quantile("n"))
        engine.deregister("m")
        assert feed(engine, [2]) == [("n", "a", 4, 1.0, 2)]
        engine.deregister("n")
        engine.register(quantile("o"))
        assert engine.answer("o").value is None
        assert feed(engine, [3]) == [("o", "a", 5, 3.0, 1)]

    def test_epsilon_is_raised_to_what_the_summary_has(self):
        engine = engine_of(quantile("coarse", epsilon=0.1))
        feed(engine, [1, 2, 3])
        engine.register([quantile("fine", epsilon=0.001), quantile("less", epsilon=0.05)])
        told = dict(feed(engine, [4], columns=["query_id", "epsilon"]))
        assert told["fine"] == engine.answer("fine").epsilon == 0.005
        assert told["less"] == 0.05
        assert (
            dict(
                feed(engine_of(quantile("m", epsilon=1e-9)), [1], columns=["query_id", "epsilon"])
            )["m"]
            == 0.0001
        )
        queries = engine.queries().select(["id", "epsilon"]).to_pylist()
        assert queries[1] == {"id": "fine", "epsilon": 0.001}  # as asked for


class TestLives:
    def test_pausing_tells_nothing_and_rows_go_on_counting(self):
        engine = engine_of(quantile("m"))
        feed(engine, [1])
        engine.pause("m")
        assert feed(engine, [5, 5, 5]) == []
        assert engine.answer("m").n == 4
        engine.resume("m")
        assert feed(engine, [5]) == [("m", "a", 4, 5.0, 5)]
        engine.pause("m")
        engine.resume("m")
        assert feed(engine, [5]) == []

    def test_ttl(self):
        stream = eq.Stream("s", key="k", time="t", attributes=["x"])
        engine = engine_of(quantile("m", ttl=10), stream=stream)
        engine.process(pa.table({"k": ["a"], "t": [0], "x": [1.0]}))
        notices = engine.process(pa.table({"k": ["a"] * 2, "t": [10, 11], "x": [5.0, 5.0]}))
        assert notices.select(["event", "reason", "value", "n"]).to_pylist() == [
            {"event": "end", "reason": "ttl", "value": None, "n": None}
        ]
        with pytest.raises(UnknownQueryError):
            engine.answer("m")

    def test_throttle(self):
        stream = eq.Stream("s", key="k", time="t", attributes=["x"])
        engine = engine_of(quantile("m", throttle=10), stream=stream)

        def told(time, value):
            notices = engine.process(pa.table({"k": ["a"], "t": [time], "x": [float(value)]}))
            names = ["time", "value", "n", "reason", "held_back"]
            return [tuple(row.values()) for row in notices.select(names).to_pylist()]

        assert told(0, 1) == [(0, 1.0, 1, None, None)]
        assert told(1, 0) == told(2, -1) == told(3, -2) == []
        assert engine.answer("m").value == -1.0
        assert told(12, 5) == [(10, -1.0, 4, "throttled", 2)]

    def test_ids_are_free_again_and_taken_twice_they_are_refused(self):
        engine = engine_of(quantile("m", phi=[0.25, 0.5]))
        with pytest.raises(DuplicateQueryError):
            engine.register(quantile("m[0.5]"))
        with pytest.raises(DuplicateQueryError):
            engine.register(quantile("m", phi=[0.1, 0.25]))
        assert engine.queries().num_rows == 2
        engine.deregister("m")
        engine.register(quantile("m", phi=[0.1, 0.25]))


class TestAnswers:
    @pytest.fixture
    def engine(self):
        engine = engine_of(quantile("m"), quantile("each", by_key=True), stream=TWO)
        engine.register([eq.Range("r", {}), eq.Quantile("y", "y", phi=0.5, epsilon=0.1, last=50)])
        rows = {"k": ["a", "b", "a"], "t": [1, 2, 3], "x": [1.0, 2.0, 3.0], "y": [4.0, 5.0, 6.0]}
        engine.process(pa.table(rows))
        return engine

    def test_answers(self, engine):
        assert engine.answer("m") == eq.Answer(2.0, 2, 2, 3, 0.01)
        assert engine.answer("each", key="a") == eq.Answer(1.0, 1, 1, 2, 0.01)
        assert engine.answer("each", key="c") == eq.Answer(None, 0, 0, 0, 0.01)
        assert engine.answer("y").value == 5.0

    def test_quantiles(self, engine):
        assert [each.value for each in engine.quantiles("x", phi=[0.1, 0.5, 1])] == [1, 2, 3]
        assert [each.value for each in engine.quantiles("x", phi=(1,), key="a")] == [3]
        assert [each.n for each in engine.quantiles("y", phi=iter([1]), last=50)] == [3]
        assert engine.quantiles("x", phi=[]) == []
        assert engine.quantiles("x", phi=[0.5], key="c")[0].value is None
        assert [each.value for each in engine.quantiles(phi=[1])] == [3]  # y has a window only

    def test_which_attribute_must_be_said(self, engine):
        engine.register(eq.Quantile("y2", "y", phi=0.5, epsilon=0.1))
        with pytest.raises(InvalidQueryError, match="about 'x', 'y'; say which attribute"):
            engine.quantiles(phi=[0.5])

    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            (
                {"query_id": "r"},
                "'r' is a range query; only quantile, correlated and window queries have answers",
            ),
            ({"query_id": "each"}, "has an answer for each key; say of which"),
            ({"query_id": "m", "key": "a"}, "has one answer; ask for it without key"),
            ({"query_id": "each", "key": 1.5}, "key is 1.5; a key is a string or an integer"),
            ({"query_id": "each", "key": True}, "key is True"),
            ({"query_id": "each", "key": "\ud800"}, "half a surrogate pair"),
        ],
    )
    def test_questions_to_a_query_that_can_not_be(self, engine, fields, said):
        with pytest.raises(InvalidQueryError, match=said):
            engine.answer(**fields)

    def test_unknown_queries(self, engine):
        for name in ("nobody", "", "m[0.5]"):
            with pytest.raises(UnknownQueryError):
                engine.answer(name)

    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            ({"phi": [0]}, "phi is 0.0; it must be above 0 and at most 1"),
            ({"phi": [1.1]}, "at most 1"),
            ({"phi": [math.nan]}, "phi is"),
            ({"phi": ["a"]}, "phi is 'a', which is not a number"),
            ({"phi": 0.5}, "phi is 0.5; give several, or one in a list"),
            ({"attribute": "z", "phi": [1]}, "no attribute 'z'"),
            ({"attribute": "y", "phi": [1]}, "no live query keeps a summary"),
            ({"attribute": "y", "phi": [1], "last": 51}, "the last 51; register a Quantile"),
            ({"phi": [1], "last": 0}, "last is 0"),
            ({"phi": [1], "last": "x"}, "last is 'x'; it must be a whole number"),
            ({"phi": [1], "key": 1.5}, "key is 1.5"),
        ],
    )
    def test_questions_about_rows_that_can_not_be(self, engine, fields, said):
        with pytest.raises(InvalidQueryError, match=said):
            engine.quantiles(**fields)

    def test_a_key_that_no_integer_column_holds(self):
        engine = engine_of(quantile("each", by_key=True))
        feed(engine, [1], 7)
        assert engine.answer("each", key=2**70).value is None

    def test_before_the_first_row(self):
        engine = engine_of(quantile("m"), quantile("each", by_key=True))
        assert engine.answer("m") == eq.Answer(None, 0, 0, 0, 0.01)
        assert engine.answer("each", key="a").value is None
        assert engine.quantiles(phi=[0.5])[0].value is None

    def test_explain(self, engine):
        for name in ("m", "each", "y"):
            text = str(engine.explain(name))
            assert text.startswith(f"quantile query '{name}': cell of ranks that it shares with no")
            assert ("on y;" if name == "y" else "on x;") in text
        assert engine.explain("m").attributes == ("x",)


class TestTables:
    def test_a_table(self):
        engine = eq.Engine(TWO)
        table = pa.table(
            {
                "id": ["a", "b", "c"],
                "attribute": ["x", "y", "x"],
                "phi": [0.5, 0.99, 1.0],
                "epsilon": [0.01, 0.01, 0.1],
                "last": [None, 100, None],
                "by_key": [None, True, False],
                "key": [None, None, "k1"],
                "owner": ["ann", None, None],
            }
        )
        assert engine.register_table(table, kind="quantile").registered == 3
        rows = {"k": ["k1", "k2"], "t": [1, 2], "x": [1.0, 2.0], "y": [3.0, 4.0]}
        notices = engine.process(pa.table(rows))
        told = [tuple(row.values()) for row in notices.select(TOLD).to_pylist()]
        assert told == [
            ("b", "k1", 0, 3.0, 1),
            ("c", "k1", 0, 1.0, 1),
            ("a", "k2", 0, 1.0, 2),
            ("b", "k2", 0, 4.0, 1),
        ]

    def test_bad_rows_are_refused_or_left_out(self):
        table = pa.table(
            {
                "id": ["a", "b", "c", "d", "a", "f", "g"],
                "phi": [0.5, 0.0, 0.5, 0.5, 0.5, None, 0.5],
                "epsilon": [0.1, 0.1, 1.0, 0.1, 0.1, 0.1, 0.1],
                "last": [10, None, None, 9, None, None, None],
                "by_key": [False, None, None, None, None, None, True],
                "key": [None, None, None, None, None, None, "k"],
            }
        )
        engine = eq.Engine(STREAM)
        with pytest.raises(InvalidTableError) as refused:
            engine.register_table(table, kind="quantile")
        assert refused.value.errors["row"].to_pylist() == [1, 2, 3, 4, 5, 6]
        assert engine.queries().num_rows == 0
        done = engine.register_table(table, kind="quantile", on_error="skip")
        assert done.registered == 1
        assert done.errors["id"].to_pylist() == ["b", "c", "d", "a", "f", "g"]
        assert feed(engine, [5])[0][0] == "a"

    def test_a_hundred_thousand(self):
        n = 100_000
        random = np.random.default_rng(8)
        table = pa.table(
            {
                "id": [f"q{i}" for i in range(n)],
                "phi": random.uniform(0.001, 1, n),
                "epsilon": np.full(n, 0.01),
            }
        )
        engine = eq.Engine(STREAM)
        assert engine.register_table(table, kind="quantile").registered == n
        values = random.normal(size=5_000)
        notices = engine.process(batch(values))
        assert notices.num_rows == n
        rank = np.searchsorted(np.sort(values), notices["value"].to_numpy()) + 1
        phi = table["phi"].to_numpy()
        assert notices["query_id"].to_pylist() == table["id"].to_pylist()
        assert (np.abs(rank - phi * 5_000) <= 0.01 * 5_000).all()


def test_sql():
    engine = eq.Engine(TWO)
    engine.sql("""
        CREATE STANDING QUERY m AS SELECT QUANTILE(x, 0.5, 0.01) FROM s EMIT CHANGES;
        CREATE STANDING QUERY p AS
          SELECT QUANTILE(y, 0.5, 0.1), QUANTILE(y, 0.9, 0.1) FROM s GROUP BY k
          OVER LAST 100 ROWS EMIT CHANGES WITH (owner = 'ann');
    """)
    shown = engine.sql("SHOW STANDING QUERIES WHERE KIND = 'quantile'")
    names = ["id", "attribute", "phi", "epsilon", "last", "by_key", "owner"]
    assert [tuple(row.values()) for row in shown.select(names).to_pylist()] == [
        ("m", "x", 0.5, 0.01, None, False, None),
        ("p[0.5]", "y", 0.5, 0.1, 100, True, "ann"),
        ("p[0.9]", "y", 0.9, 0.1, 100, True, "ann"),
    ]
    rows = {"k": ["a", "a", "a"], "t": [1, 2, 3], "x": [1.0, 2.0, 3.0], "y": [4.0, 5.0, 6.0]}
    notices = engine.process(pa.table(rows))
    assert notices.select(["query_id", "value"]).to_pydict() == {
        "query_id": ["m", "p[0.5]", "p[0.9]"],
        "value": [2.0, 5.0, 6.0],
    }
    explained = engine.sql('EXPLAIN STANDING QUERY "p[0.9]"')["explanation"][0].as_py()
    assert explained.startswith("quantile query 'p[0.9]': ")
    engine.sql("DROP STANDING QUERY p; ALTER STANDING QUERY m PAUSE")
    assert engine.queries().select(["id", "state"]).to_pylist() == [{"id": "m", "state": "paused"}]


class TestRegistry:
    @pytest.fixture
    def url(self, tmp_path):
        return f"sqlite:///{tmp_path / 'q.db'}"

    def test_reopened_queries_are_the_same(self, url):
        with eq.Engine(TWO, registry=url, create=True) as engine:
            engine.register([quantile("m", phi=[0.5, 0.99]), quantile("k", key="a", last=100)])
            table = pa.table(
                {"id": ["t"], "attribute": ["y"], "phi": [0.1], "epsilon": [0.2], "by_key": [True]}
            )
            engine.register_table(table, kind="quantile")
            engine.pause("m[0.5]")
            before = engine.queries()
        for _ in range(2):
            with eq.open(url) as again:
                assert again.queries().equals(before)
                rows = {"k": ["a"] * 2, "t": [1, 2], "x": [1.0, 2.0], "y": [3.0, 4.0]}
                told = again.process(pa.table(rows))
                assert told["query_id"].to_pylist() == ["m[0.99]", "k", "t"]
                assert told["value"].to_pylist() == [2.0, 1.0, 3.0]
                again.compact_registry()

    def test_another_writer(self, url):
        with (
            eq.Engine(STREAM, registry=url, create=True) as here,
            eq.Engine(STREAM, registry=url, create=True) as there,
        ):
            there.register(quantile("m"))
            assert feed(here, [1]) == [("m", "a", 0, 1.0, 1)]
            there.deregister("m")
            assert feed(here, [2]) == []
            with pytest.raises(UnknownQueryError):
                here.answer("m")

    def test_quotas_count_parts(self, url):
        with eq.Engine(STREAM, registry=url, create=True) as engine:
            engine.set_quota("ann", 2)
            with pytest.raises(eq.QuotaError):
                engine.register(quantile("m", phi=[0.1, 0.2, 0.3], owner="ann"))
            engine.register(quantile("m", phi=[0.1, 0.2], owner="ann"))
            assert engine.live_of("ann") == 2
            engine.deregister("m")
            assert engine.live_of("ann") == 0


class TestSnapshots:
    QUERIES = (
        quantile("m", phi=[0.5, 0.99]),
        quantile("k", key="a"),
        quantile("each", by_key=True),
        quantile("w", last=200),
    )

    @pytest.mark.parametrize("paused", [False, True])
    def test_answers_and_what_was_told_are_kept(self, paused):
        random = np.random.default_rng(9)
        engine = engine_of(*self.QUERIES)
        for _ in range(5):
            feed(engine, random.normal(size=100), random.choice(["a", "b", "c"], 100))
        if paused:
            engine.pause(["m", "w"])
        other = eq.Engine(STREAM)
        other.restore(engine.snapshot())
        for name in ("m[0.5]", "m[0.99]", "k", "w"):
            assert other.answer(name) == engine.answer(name)
        assert other.answer("each", key="c") == engine.answer("each", key="c")
        ranks = [0.1, 0.9]
        assert other.quantiles(phi=ranks) == engine.quantiles(phi=ranks)
        assert other.quantiles(phi=ranks, last=200) == engine.quantiles(phi=ranks, last=200)
        for step in range(6):
            values = random.normal(size=50) + step
            keys = random.choice(["a", "b", "c", "d"], 50)
            assert engine.process(batch(values, keys)).equals(other.process(batch(values, keys)))
            if step == 2 and paused:
                for each in (engine, other):
                    each.resume(["m", "w"])

    def test_before_the_first_row(self):
        engine = engine_of(*self.QUERIES)
        other = eq.Engine(STREAM)
        other.restore(engine.snapshot())
        assert feed(other, [1, 2]) == feed(engine, [1, 2])

    def test_answers_are_plain_values(self):
        engine = engine_of(*self.QUERIES)
        feed(engine, [1, 2, 3])
        answer = engine.answer("k")
        assert pickle.loads(pickle.dumps(answer)) == answer
        assert {type(each) for each in (answer.rank_low, answer.rank_high, answer.n)} == {int}
        assert type(answer.value) is type(answer.epsilon) is float


def ranked(name, **fields):
    return eq.Quantile(name, "x", phi=0.5, epsilon=0.01, **fields)


def test_a_lane_outlives_queries_of_all_keys_that_end_with_one_of_its_own():
    engine = eq.Engine(eq.Stream("s", key="k", attributes=["x"]))
    engine.register([ranked("every", by_key=True), ranked("c", key="c"), ranked("b", key="b")])
    engine.process(pa.table({"k": ["b", "c"], "x": [1.0, 2.0]}))
    engine.deregister(["every", "c"])
    engine.process(pa.table({"k": ["c"], "x": [3.0]}))
    assert engine.answer("b").n == 1
    engine.register(ranked("again", key="c"))
    assert engine.answer("again").n == 0


def test_a_lane_ends_with_queries_that_had_no_row_of_it_yet():
    engine = eq.Engine(eq.Stream("s", key="k", attributes=["x"]))
    engine.register(ranked("one", by_key=True))
    engine.process(pa.table({"k": ["a"], "x": [1.0]}))
    engine.register(ranked("two", by_key=True))
    engine.deregister(["one", "two"])
    engine.register(ranked("three", by_key=True))
    assert engine.answer("three", key="a").value is None


def test_queries_of_all_keys_that_are_gone_cost_nothing():
    engine = eq.Engine(eq.Stream("s", key="k", attributes=["x"]))
    engine.register(ranked("stays", by_key=True))
    engine.process(pa.table({"k": ["a"], "x": [1.0]}))
    for number in range(200):
        engine.register(ranked(f"q{number}", by_key=True))
        if number:
            engine.deregister(f"q{number - 1}")
        engine.process(pa.table({"k": ["a", f"key{number % 7}"], "x": [1.0, 2.0]}))
    [feed] = engine._shard.contents.indexes["quantile"].feeds.values()
    assert len(feed._everywhere) < 10
    assert engine.answer("stays", key="a").n == 201
    assert engine.answer("q199", key="key3").n == engine.answer("stays", key="key3").n
