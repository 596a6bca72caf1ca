"""Queries that take the place of others with their ids."""

import pyarrow as pa
import pytest

import everquery as eq
from everquery.errors import InvalidQueryError, InvalidTableError, QuotaError, UnknownQueryError
from everquery.queries.sql import InvalidSqlError
from everquery.registry import Registry

STREAM = eq.Stream("trades", key="symbol", time="ts", attributes=["price"], weight="shares")


@pytest.fixture(params=["alone", "registry"])
def engine(request, tmp_path):
    url = None if request.param == "alone" else f"sqlite:///{tmp_path / 'q.db'}"
    with eq.Engine(STREAM, registry=url, create=url is not None) as engine:
        yield engine


def batch(*rows):
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    key, time, price = columns
    return pa.table(
        {
            "symbol": pa.array(key, pa.string()),
            "ts": pa.array(time, pa.int64()),
            "price": pa.array(price, pa.float64()),
            "shares": pa.array([1] * len(key), pa.int64()),
        }
    )


def told(table):
    names = ("query_id", "event", "key", "reason")
    return [tuple(row[name] for name in names) for row in table.to_pylist()]


def border(low, high, **options):
    return eq.Border("b", {"price": (low, high)}, **options)


def begun(engine, query):
    engine.register(query)
    engine.process(batch(("IBM", 1, 41.0), ("HP", 2, 45.0), ("SAP", 3, 51.0)))


def test_a_border_tells_only_what_changed(engine):
    begun(engine, border(40, 50))
    engine.register(border(42, 52), replace=True)
    assert told(engine.process(batch(("HP", 4, 60.0)))) == [
        ("b", "leave", "IBM", "replaced"),
        ("b", "enter", "SAP", "replaced"),
        ("b", "leave", "HP", None),
    ]
    assert engine.queries()["price_lo"].to_pylist() == [42.0]


def test_what_says_the_same_tells_nothing_and_keeps_its_state(engine):
    begun(engine, border(40, 50))
    engine.register(eq.Threshold("t", {}, total=10, count=True))
    engine.process(batch(("IBM", 4, 41.0)))
    engine.pause("b")
    engine.register(border(40, 50, owner="ann", labels={"team": "fx"}), replace=True)
    engine.register(eq.Threshold("t", {}, total=10, count=True, owner="bob"), replace=True)
    assert engine.queries()["state"].to_pylist() == ["paused", "live"]
    assert engine.queries()["owner"].to_pylist() == ["ann", "bob"]
    assert engine.live_of("ann") == 1
    assert engine.progress("t") == 1
    assert told(engine.process(batch())) == []


def test_another_threshold_begins_from_zero(engine):
    engine.register(eq.Threshold("t", {"price": (0, 90)}, total=10))
    engine.process(batch(("IBM", 4, 41.0)))
    engine.register(eq.Threshold("t", {"price": (0, 90)}, total=9), replace=True)
    assert engine.progress("t") == 0


def test_another_rank_of_the_same_rows_knows_them(engine):
    engine.register(eq.Quantile("q", "price", phi=0.5, epsilon=0.1))
    engine.process(batch(("IBM", 1, 41.0), ("HP", 2, 45.0)))
    engine.register(eq.Quantile("q", "price", phi=1.0, epsilon=0.1), replace=True)
    assert engine.answer("q").n == 2


def test_an_id_that_is_not_live_is_just_registered(engine):
    engine.process(batch(("IBM", 1, 41.0)))
    engine.register(border(40, 50), replace=True)
    assert told(engine.process(batch())) == [("b", "enter", "IBM", "registered")]


def test_what_was_paused_is_live_and_begins_anew(engine):
    begun(engine, border(40, 50))
    engine.pause("b")
    engine.register(border(42, 52), replace=True)
    assert told(engine.process(batch())) == [
        ("b", "enter", "HP", "replaced"),
        ("b", "enter", "SAP", "replaced"),
    ]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"silent": True}, []),
        ({"emit": ("enter",)}, [("b", "enter", "SAP", "replaced")]),
        ({"emit": ("leave",)}, [("b", "leave", "IBM", "replaced")]),
        # The enter waits; a leave that nothing can undo does not.
        ({"dwell": 9}, [("b", "leave", "IBM", "replaced")]),
        ({"emit": ("enter",), "dwell": 9}, []),
    ],
)
def test_options_of_the_new_query_apply(engine, options, wanted):
    begun(engine, border(40, 50))
    engine.register(border(42, 52, **options), replace=True)
    assert told(engine.process(batch())) == wanted


def test_twice_before_a_batch_is_once(engine):
    begun(engine, border(40, 50))
    engine.register(border(0, 1, silent=True), replace=True)
    engine.register(border(42, 52), replace=True)
    assert told(engine.process(batch())) == [
        ("b", "leave", "IBM", "replaced"),
        ("b", "enter", "SAP", "replaced"),
    ]


def test_another_key(engine):
    begun(engine, border(40, 50, key="IBM"))
    engine.register(border(40, 50, key="HP"), replace=True)
    assert told(engine.process(batch())) == [
        ("b", "leave", "IBM", "replaced"),
        ("b", "enter", "HP", "replaced"),
    ]


def test_a_crossing_that_still_waits_was_not_told(engine):
    begun(engine, border(40, 50, dwell=100))  # IBM and HP wait to be inside
    engine.register(border(44, 52), replace=True)
    assert told(engine.process(batch())) == [
        ("b", "enter", "HP", "replaced"),
        ("b", "enter", "SAP", "replaced"),
    ]


def test_a_snapshot_between_loses_nothing(engine):
    begun(engine, border(40, 50, dwell=1))
    engine.process(batch(("IBM", 9, 60.0)))  # waits to be outside
    engine.register(border(42, 52), replace=True)
    restored = eq.Engine(STREAM, snapshot=engine.snapshot())
    wanted = [("b", "leave", "IBM", "replaced"), ("b", "enter", "SAP", "replaced")]
    assert told(restored.process(batch())) == told(engine.process(batch())) == wanted
    assert told(restored.process(batch())) == []


def test_another_kind_is_refused(engine):
    begun(engine, border(40, 50))
    with pytest.raises(InvalidQueryError, match="'b' is a border query, and can't become a range"):
        engine.register([eq.Range("r", {}), eq.Range("b", {})], replace=True)
    assert engine.queries()["kind"].to_pylist() == ["border"]


def test_an_id_twice_is_refused(engine):
    begun(engine, border(40, 50))
    with pytest.raises(InvalidQueryError, match="'b' occurs twice"):
        engine.register([border(1, 2), border(3, 4)], replace=True)
    assert engine.queries()["price_lo"].to_pylist() == [40.0]


def test_a_composite_replaces_its_parts(engine):
    def quantile(*phi):
        return eq.Quantile("q", "price", phi=list(phi), epsilon=0.1)

    engine.register(quantile(0.1, 0.5))
    engine.process(batch(("IBM", 1, 41.0)))
    engine.register(quantile(0.5, 0.9), replace=True)
    assert engine.parts("q") == ["q[0.5]", "q[0.9]"]
    engine.register(eq.Quantile("q", "price", phi=0.9, epsilon=0.1), replace=True)
    assert engine.queries()["id"].to_pylist() == ["q"]
    engine.register(quantile(0.1, 0.2), replace=True)
    assert engine.parts("q") == ["q[0.1]", "q[0.2]"]
    with pytest.raises(InvalidQueryError, match="'q' is a quantile query"):
        engine.register(eq.Range("q", {}), replace=True)


def test_quotas_count_what_is_replaced_once(engine):
    engine.set_quota("ann", 1)
    engine.register(border(40, 50, owner="ann"))
    engine.register(eq.Border("c", {}, owner="bob"))
    engine.register(border(41, 50, owner="ann"), replace=True)
    with pytest.raises(QuotaError):
        engine.register(eq.Border("c", {"price": (1, 2)}, owner="ann"), replace=True)
    engine.register([border(42, 50, owner="bob"), eq.Border("c", {}, owner="ann")], replace=True)
    assert (engine.live_of("ann"), engine.live_of("bob")) == (1, 1)


class TestTables:
    def table(self, **columns):
        return pa.table(
            {"id": ["b", "c"], "price_lo": [42.0, 0.0], "price_hi": [52.0, 9.0]} | columns
        )

    def load(self, engine, table, **options):
        return engine.register_table(table, kind="border", on_conflict="replace", **options)

    def test_rows_replace_queries(self, engine):
        begun(engine, border(40, 50))
        planned = self.load(engine, self.table(), dry_run=True)
        assert (planned.added, planned.changed, planned.unchanged) == (1, 1, 0)
        assert engine.queries()["id"].to_pylist() == ["b"]
        assert told(engine.process(batch())) == []
        done = self.load(engine, self.table())
        assert (done.added, done.changed, done.unchanged, done.registered) == (1, 1, 0, 2)
        assert told(engine.process(batch())) == [
            ("b", "leave", "IBM", "replaced"),
            ("b", "enter", "SAP", "replaced"),
        ]

    def test_unchanged_rows_are_not_in_the_log(self, engine):
        begun(engine, border(40, 50))
        self.load(engine, self.table())
        position = engine.position
        done = self.load(engine, self.table())
        assert (done.added, done.changed, done.unchanged) == (0, 0, 2)
        assert engine.position == position
        done = self.load(engine, self.table(owner=["ann", None]))
        assert (done.changed, done.unchanged) == (1, 1)
        assert told(engine.process(batch())) == [
            ("b", "leave", "IBM", "replaced"),
            ("b", "enter", "SAP", "replaced"),
        ]

    def test_unwanted_queries_end_with_the_same_change(self, engine):
        engine.register([border(40, 50), eq.Range("r", {})])
        done = self.load(engine, self.table(), unwanted=["r", "nobody"])
        assert done.dropped == 1
        assert sorted(engine.queries()["id"].to_pylist()) == ["b", "c"]

    def test_bad_rows(self, engine):
        engine.register([eq.Range("b", {}), eq.Quantile("c", "price", phi=[0.1, 0.2], epsilon=0.1)])
        with pytest.raises(InvalidTableError) as caught:
            self.load(engine, self.table())
        reasons = caught.value.errors["reason"].to_pylist()
        assert ["of another kind" in reason for reason in reasons] == [True, True]
        with pytest.raises(InvalidTableError, match="earlier row"):
            self.load(engine, self.table(id=["x", "x"]))
        assert self.load(engine, self.table(), on_error="skip").registered == 0

    def test_bad_arguments(self, engine):
        with pytest.raises(InvalidQueryError, match="'raise' or 'replace'"):
            engine.register_table(self.table(), kind="border", on_conflict="skip")
        with pytest.raises(InvalidQueryError, match="for on_conflict='replace' only"):
            engine.register_table(self.table(), kind="border", dry_run=True)


CREATE = "CREATE {} STANDING QUERY {} AS SELECT * FROM trades WHERE price < {} EMIT {};"


class TestSql:
    def test_or_replace(self, engine):
        begun(engine, border(None, 50))
        engine.sql(CREATE.format("OR REPLACE", "b", 45, "ENTER, LEAVE"))
        assert told(engine.process(batch())) == [("b", "leave", "HP", "replaced")]

    @pytest.mark.parametrize(
        ("last", "error"),
        [
            (CREATE.format("", "a", 1, "MATCHES"), InvalidQueryError),
            (CREATE.format("OR REPLACE", "b", 1, "MATCHES"), InvalidQueryError),
            ("DROP STANDING QUERY nobody", UnknownQueryError),
            ("DROP STANDING QUERY b; DROP STANDING QUERY b", UnknownQueryError),
            ("EXPLAIN STANDING QUERY nobody", UnknownQueryError),
            ("ALTER OWNER ann SET QUOTA 3", InvalidSqlError),
            ("SHOW STREAMS; DROP STANDING QUERY b", InvalidSqlError),
            ("CREATE STREAM trades (price DOUBLE)", eq.EverqueryError),
            ("DROP STANDING QUERRY b", InvalidSqlError),
        ],
    )
    def test_all_or_nothing(self, engine, last, error):
        engine.register(border(40, 50))
        before = engine.position, engine.queries()
        text = CREATE.format("", "a", 1, "MATCHES") + "ALTER STANDING QUERY b PAUSE;" + last
        with pytest.raises(error):
            engine.sql(text)
        assert (engine.position, engine.queries()) == before

    def test_statements_see_the_ones_before_them(self, engine):
        engine.register([border(40, 50), eq.Quantile("q", "price", phi=[0.1, 0.2], epsilon=0.1)])
        shown = engine.sql(
            "SHOW STANDING QUERIES;"
            + CREATE.format("", "a", 1, "MATCHES")
            + "ALTER STANDING QUERY a PAUSE;"
            + "DROP STANDING QUERY b; DROP STANDING QUERY q;"
            + CREATE.format("", "b", 1, "MATCHES")
            + CREATE.format("OR REPLACE", "b", 2, "MATCHES")
            + CREATE.format("OR REPLACE", "c", 2, "MATCHES")
            + "SHOW STANDING QUERIES"
        )
        assert shown["id"].to_pylist() == ["a", "b", "c"]
        assert shown["kind"].to_pylist() == ["range"] * 3
        assert shown["state"].to_pylist() == ["paused", "live", "live"]
        assert shown["price_hi"].to_pylist() == [1.0, 2.0, 2.0]


class TestRegistry:
    @pytest.fixture
    def url(self, tmp_path):
        return f"sqlite:///{tmp_path / 'q.db'}"

    def test_others_tell_the_same(self, url):
        first = eq.Engine(STREAM, registry=url, create=True)
        second = eq.Engine(STREAM, registry=url)
        begun(first, border(40, 50))
        second.process(batch(("IBM", 1, 41.0), ("HP", 2, 45.0), ("SAP", 3, 51.0)))
        first.register(border(42, 52, key="SAP"), replace=True)
        wanted = [
            ("b", "leave", "IBM", "replaced"),
            ("b", "leave", "HP", "replaced"),
            ("b", "enter", "SAP", "replaced"),
        ]
        assert told(second.process(batch())) == told(first.process(batch())) == wanted
        first.register(border(42, 52, key="SAP", owner="ann"), replace=True)
        first.compact_registry()
        second.refresh()
        assert second.queries()["owner"].to_pylist() == ["ann"]
        assert told(second.process(batch())) == []

    def test_one_that_fell_behind_a_compaction(self, url):
        first = eq.Engine(STREAM, registry=url, create=True)
        second = eq.Engine(STREAM, registry=url)
        begun(first, border(40, 50))
        second.process(batch(("IBM", 1, 41.0), ("HP", 2, 45.0), ("SAP", 3, 51.0)))
        first.register([border(42, 52), eq.Border("c", {"price": (50, 60)})], replace=True)
        first.compact_registry()
        assert told(second.process(batch())) == told(first.process(batch()))

    def test_changes_of_a_text_are_read_together(self, url):
        engine = eq.Engine(STREAM, registry=url, create=True)
        engine.sql("".join(CREATE.format("", name, 1, "MATCHES") for name in "ab"))
        start = engine.position
        engine.sql(
            "DROP STANDING QUERY a; DROP STANDING QUERY b;" + CREATE.format("", "a", 9, "MATCHES")
        )
        engine.sql(CREATE.format("", "d", 9, "MATCHES"))
        reader = Registry(url).log_reader("trades")
        assert reader.end_within(start, queries=1, entries=100) == start + 3
        assert reader.end_within(start, queries=100, entries=1) == start + 3
        assert reader.end_within(0, queries=1, entries=100) == 2
        assert [row.operation for row in reader.rows(start, start + 4)] == [
            "deregister +", "deregister +", "register", "register",
        ]  # fmt: skip
