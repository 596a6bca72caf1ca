"""Random worlds in which an engine and the oracle of select queries live side by side."""

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from tempfile import TemporaryDirectory

import pyarrow as pa

import everquery as eq
from everquery.errors import RowsGoneError
from everquery.queries.sql.errors import InvalidSqlError
from tests.conformance.select_oracle import (
    EPOCH,
    KEYS,
    NUMBERS,
    Asked,
    Book,
    Edge,
    as_table,
    make_asked,
    stamp,
)


@dataclass
class Live:
    """A live query, and what its owner knows."""

    asked: Asked
    since: dict[str, int]  # by stream, the number of the first row after its registration
    paused: bool = False
    cutoffs: dict[int, dict] = field(default_factory=dict)  # what was told, by first row seen
    saved: list = field(default_factory=list)
    pages: list = field(default_factory=list)
    tainted: bool = False


class World:
    """One engine with one or two streams, and the books of the oracle."""

    def __init__(self, seed, folder: str | None = None) -> None:
        self.rng = rng = random.Random(str(seed))
        self.log: list[str] = []
        self.stamps = rng.random() < 0.3
        names = ["r", "s"][: rng.choice([1, 1, 2])]
        self.keeps = {name: self.make_keep() for name in names}
        graces = {name: rng.choice([0, 0, 0, 3]) for name in names}
        self.folder = folder if all(self.keeps.values()) and len(names) == 1 else None
        self.streams = [
            eq.Stream(name, key="k", time="t", attributes=["x", "y"], keep=self.keeps[name],
                      grace=self.span(graces[name]) or None)
            for name in names
        ]  # fmt: skip
        self.say(self.streams)
        self.books = {name: Book(name, graces[name]) for name in names}
        self.engine = self.make_engine()
        self.live: dict[str, Live] = {}
        self.restored = dict.fromkeys(names, 0)
        self.restored_at: dict[str, int] = {}
        self.needed_before = dict.fromkeys(names, 0)
        self.clock = dict.fromkeys(names, rng.randint(0, 10))
        self.count = 0
        self.pair_ids: set[bytes] = set()

    def say(self, what) -> None:
        self.log.append(str(what))

    def make_keep(self):
        rng = self.rng
        span = timedelta(seconds=rng.choice([2, 10])) if self.stamps else "all"
        return rng.choice([None, "all", rng.choice([3, 10, 25]), span])

    def make_engine(self, **said) -> eq.Engine:
        streams = self.streams if len(self.streams) > 1 else self.streams[0]
        if self.folder:
            said["history"] = self.folder
        return eq.Engine(streams, **said)

    def span(self, length: int):
        return timedelta(seconds=length) if self.stamps else length

    def time(self, t: int):
        return stamp(t) if self.stamps else t

    def number(self, t):
        return int((t - EPOCH).total_seconds()) if isinstance(t, datetime) else t

    # What may be gone

    def sure_from(self, name: str, live: Live | None) -> int:
        """Return the first row of a stream that is kept for certain."""
        book, keep = self.books[name], self.keeps[name]
        total = len(book.rows)
        if keep is None:
            needed = self.needed_before[name]  # until then windows needed only later rows
            return max(live.since[name], needed) if live else total
        held = 0
        if isinstance(keep, int):
            held = max(total - keep, 0)
        elif isinstance(keep, timedelta):
            old = [row.number for row in book.rows
                   if book.newest - row.t > keep.total_seconds()]  # fmt: skip
            held = max(old, default=-1) + 1
        return max(held, 0 if self.folder else self.restored[name])

    def keeps_all(self, live: Live) -> bool:
        """Tell whether all rows that ever came are kept, so that any old place is good."""
        forgot = any(self.restored.values()) and not self.folder
        return not forgot and all(self.keeps[name] == "all" for name in live.asked.streams)

    def may_be_gone(self, live: Live) -> bool:
        """Tell whether the window reaches rows that may be gone."""
        asked = live.asked
        now = asked.now(self.books)
        for name in asked.streams:
            book, sure = self.books[name], self.sure_from(name, live)
            if asked.by_rows:
                if any(row.number < sure for row in asked.window(book, now)):
                    return True
                continue
            begin = asked.begin
            low = now - begin.number if begin.from_now and now is not None else begin.number
            if any(low is None or row.t >= low for row in book.rows[:sure]):
                return True
            if name in self.restored_at and low is not None and low <= self.restored_at[name]:
                return True
        return False

    def set_base(self, names) -> None:
        for name in names:
            book = self.books[name]
            if book.base is None:
                book.base = len(book.rows) - self.held(name)

    def held(self, name: str) -> int:
        if self.keeps[name] is None:
            return 0
        one = len(self.streams) == 1
        held = self.engine.history()
        held = held["events"] if one else held[name]["events"]
        assert held >= len(self.books[name].rows) - self.sure_from(name, None)
        return held

    # Steps

    def events(self, name: str) -> list[tuple]:
        rng, book, made = self.rng, self.books[name], []
        for _ in range(rng.choice([0, 1, 1, 2, 3, 6, 12])):
            self.clock[name] += rng.choice([0, 0, 0, 1, 1, 2, 7])
            t = self.clock[name]
            if book.grace:
                t = max(t - rng.randint(0, book.grace), (book.newest or t) - book.grace)
                t = max([t, *book.last.values()])
            elif rng.random() < 0.1:
                t -= rng.randint(1, 4)
            x, y = (rng.choice([None, *NUMBERS, *NUMBERS]) for _ in "xy")
            made.append((rng.choice(KEYS), t, x, y))
        return made

    def step_events(self) -> None:
        name = self.rng.choice(list(self.books))
        events = self.events(name)
        if not self.rng.randint(0, 4):
            self.rng.shuffle(events)
        self.say(("process", name, events))
        table = as_table(events, stamps=self.stamps)
        if len(self.streams) == 1 and len(events) == 1 and self.rng.random() < 0.5:
            told = [notice.as_dict() for notice in self.engine.push(table.to_pylist()[0])]
        else:
            told = self.engine.process(table, stream=name).to_pylist()
        book = self.books[name]
        before, now = len(book.rows), book.now
        book.take(events)
        self.check_told(name, told, before, now)

    def step_time(self) -> None:
        rng = self.rng
        name = rng.choice(list(self.books))
        book = self.books[name]
        if book.newest is None:
            return
        of = {"stream": name} if len(self.streams) > 1 else {}
        before, now = len(book.rows), book.now
        what = rng.choice(["advance", "advance", "flush", "reset_time"])
        if what == "advance":
            to = book.newest + rng.choice([0, 1, 3, 12])
            self.clock[name] = max(self.clock[name], to)
            self.say((what, name, to))
            told = self.engine.advance(self.time(to), **of)
            book.advance(to)
        elif what == "flush":
            self.say((what, name))
            told = self.engine.flush(**of)
            book.flush()
        else:
            if rng.random() < 0.7:
                return
            to = book.newest - rng.randint(0, 8)
            self.say((what, name, to))
            self.engine.reset_time(self.time(to), **of)
            for live in self.live.values():  # rows come back that may be gone
                live.tainted = live.tainted or len(live.asked.streams) > 1
            book.reset_time(to)
            self.clock[name] = to
            self.needed_before[name] = len(book.rows)
            return
        self.check_told(name, told.to_pylist(), before, now)

    def step_register(self) -> None:
        self.count += 1
        asked = replace(
            make_asked(self.rng, f"q{self.count}", list(self.books)), stamps=self.stamps
        )
        self.register(asked)

    def register(self, asked: Asked, verb: str = "CREATE") -> None:
        self.say(asked.sql(verb))
        self.set_base(asked.streams)
        try:
            self.engine.sql(asked.sql(verb))
        except InvalidSqlError as error:
            if "holds no value" not in str(error):
                raise
            return
        since = {name: len(self.books[name].rows) for name in asked.streams}
        live = Live(asked, since)
        if asked.tell == "changes" and len(asked.streams) == 2:
            now = asked.now(self.books)
            cuts = [[row.number for row in asked.window(self.books[name], now)]
                    + [len(self.books[name].rows)] for name in asked.streams]  # fmt: skip
            live.cutoffs = {(c, d): {} for c in cuts[0] for d in cuts[1]}
        elif asked.tell == "changes":
            book = self.books[asked.streams[0]]
            live.cutoffs = {c: {} for c in {*range(book.base, len(book.rows) + 1)}}
        self.live[asked.id] = live

    def pick(self) -> Live | None:
        return self.rng.choice(list(self.live.values())) if self.live else None

    def step_change(self) -> None:
        live = self.pick()
        if live is None:
            return
        name = live.asked.id
        what = self.rng.choice(["deregister", "pause", "resume", "replace", "same"])
        self.say((what, name))
        if what == "deregister":
            self.engine.deregister(name)
            del self.live[name]
        elif what == "pause":
            if not live.paused:
                self.engine.pause(name)
            live.paused = True
        elif what == "resume":
            if live.paused:
                self.engine.resume(name)
                live.tainted = live.tainted or len(live.asked.streams) > 1
            live.paused = False
        elif what == "same":
            self.engine.sql(live.asked.sql("CREATE OR REPLACE"))
        else:
            other = make_asked(self.rng, name, list(live.asked.streams[:1]))
            other = replace(other, stamps=self.stamps)
            if len(live.asked.streams) == 1:
                self.register(other, "CREATE OR REPLACE")

    def step_restore(self) -> None:
        self.say("restore")
        snapshot = self.engine.snapshot()
        self.engine.close()
        self.engine = self.make_engine()
        self.engine.restore(snapshot)
        self.restored = {name: len(book.rows) for name, book in self.books.items()}
        known = {name: book.newest for name, book in self.books.items()}
        forgot = {name for name, keep in self.keeps.items() if keep and not self.folder}
        self.restored_at = {n: t for n, t in known.items() if n in forgot and t is not None}

    # Reading

    def rows(self, table: pa.Table) -> list[tuple]:
        return [tuple(self.number(v) for v in row.values()) for row in table.to_pylist()]

    def same(self, live: Live, got: list[tuple], expected: list[tuple]) -> None:
        ordered = len(live.asked.streams) == 1 and not live.asked.aggregates
        if ordered:
            assert got == expected, (live.asked.sql(), got, expected)
        assert Counter(got) == Counter(expected), (live.asked.sql(), got, expected)

    def step_invoke(self) -> None:
        live = self.pick()
        if live is None:
            return
        asked, rng = live.asked, self.rng
        gone = self.may_be_gone(live)
        how = rng.choice(["all", "all", "since", "since", "page", "next", "partial"])
        self.say((how, asked.id))
        if how == "since" and live.saved:
            self.read_since(live, gone)
            return
        if how in ("page", "next"):
            self.read_page(live, gone)
            return
        try:
            table = self.engine.invoke(asked.id, partial=how == "partial")
        except RowsGoneError:
            assert gone, ("gone without need", asked.sql())
            assert how != "partial"
            return
        names = [alias for _, alias in asked.columns] + [a.alias for a in asked.aggregates]
        assert table.column_names == names, (table.column_names, names)
        found = asked.found(self.books)
        got = self.rows(table)
        if gone and (how == "partial" or asked.begin.number is None):
            assert any(self.is_answer(live, got, found, c) for c in self.cuts(live)), (
                asked.sql(), got, asked.shown(found))  # fmt: skip
            return
        self.same(live, got, asked.shown(found))
        live.saved.append((eq.place_of(table), found, gone))

    def cuts(self, live: Live) -> list[tuple[int, ...]]:
        ranges = [range(self.sure_from(name, live) + 1) for name in live.asked.streams]
        if len(ranges) == 1:
            return [(c,) for c in ranges[0]]
        return [(c, d) for c in ranges[0] for d in ranges[1]]

    def is_answer(self, live: Live, got, found, cut: tuple[int, ...]) -> bool:
        rows = [each for each in found
                if all(row.number >= c for row, c in zip(each, cut, strict=True))]  # fmt: skip
        return Counter(got) == Counter(live.asked.shown(rows))

    def read_since(self, live: Live, gone: bool) -> None:
        asked = live.asked
        place, old, gone_then = self.rng.choice(live.saved)
        now = asked.found(self.books)
        try:
            table = self.engine.invoke(asked.id, since=place)
        except RowsGoneError:
            assert gone_then or not self.keeps_all(live), ("gone without need", asked.sql())
            return
        if gone and asked.begin.number is None:
            return
        got = Counter(self.rows(table))
        expected = Counter(changes_of(asked, old, now))
        assert got == expected, ("since", asked.sql(), got, expected)

    def read_page(self, live: Live, gone: bool) -> None:
        asked = live.asked
        if asked.aggregates and not asked.group:
            return
        if not live.pages or self.rng.random() < 0.3:
            size = self.rng.randint(1, 4)
            try:
                page = self.engine.invoke(asked.id, limit=size)
            except RowsGoneError:
                assert gone
                return
            if gone and asked.begin.number is None:
                return
            expected = asked.answer(self.books)
            got = self.rows(page)
            assert len(got) == min(size, len(expected)), ("page", asked.sql(), got, expected)
            live.pages = [size, eq.place_of(page), got, expected]
        else:
            size, place, got, expected = live.pages
            if len(got) == len(expected):
                return
            try:
                page = self.engine.invoke(asked.id, limit=size, after=place)
            except RowsGoneError:
                assert not self.keeps_all(live), ("gone without need", asked.sql())
                live.pages = []
                return
            got = got + self.rows(page)
            live.pages = [size, eq.place_of(page), got, expected]
        assert len(got) <= len(expected), ("pages", asked.sql(), got, expected)
        if len(got) == len(expected):
            self.same(live, got, expected)
        elif len(asked.streams) == 1 and not asked.aggregates:
            assert got == expected[: len(got)], ("pages", asked.sql(), got, expected)

    # Telling

    def check_told(self, stream: str, told: list[dict], before: int, now: int | None) -> None:
        book = self.books[stream]
        by_query: dict[str, list] = {}
        for row in told:
            if row["kind"] == "select":
                by_query.setdefault(row["query_id"], []).append(row)
        for name, live in self.live.items():
            if stream not in live.asked.streams:
                assert name not in by_query
                continue
            got = by_query.pop(name, [])
            if live.paused or live.asked.tell == "nothing":
                assert not got, ("told though silent", live.asked.sql(), got)
                continue
            assert all(row["reason"] is None for row in got)
            if len(live.asked.streams) == 2 and live.asked.tell == "matches":
                self.check_pairs(live, got, stream, before, now)
            elif len(live.asked.streams) == 2:
                self.check_changes(live, got, stream)
            elif live.asked.tell == "matches":
                self.check_matches(live, got, book, before)
            else:
                self.check_changes(live, got)
        assert not by_query, by_query

    def check_matches(self, live: Live, got, book: Book, before: int) -> None:
        expected = [("match", row.k, row.t, row.seq, row.x, row.y)
                    for row in book.rows[before:] if live.asked.matches((row,))]  # fmt: skip
        columns = ("event", "key", "time", "seq", "x", "y")
        found = [tuple(self.number(row[name]) for name in columns) for row in got]
        assert found == expected, ("matches", live.asked.sql(), found, expected)

    def pair_told(self, asked: Asked, row: dict, called: str) -> tuple:
        """Return both events that a notice of a join is about, in the order of its streams."""
        names = ("key", "seq", "time", "x", "y")
        events = []
        for stream in asked.streams:
            of = "" if stream == called else f"{stream}."
            events.append(tuple(self.number(row[of + name]) for name in names))
        return tuple(events)

    def check_pairs(self, live: Live, got, called: str, before: int, now: int | None) -> None:
        """Each pair that an event completes is told at it, as far as its rows are kept."""
        asked = live.asked
        (other,) = (name for name in asked.streams if name != called)
        sure, side = self.sure_from(other, live), asked.streams.index(other)
        pairs = asked.completed(self.books, called, before, now)
        by_name = {tuple((r.k, r.seq, r.t, r.x, r.y) for r in pair): pair for pair in pairs}
        found = [self.pair_told(asked, row, called) for row in got]
        assert all(row["event"] == "match" for row in got)
        assert all(each in by_name for each in found), ("pairs", asked.sql(), found, by_name)
        assert found == [each for each in by_name if each in set(found)], "in order, each once"
        missing = [pair for name, pair in by_name.items()
                   if name not in found and pair[side].number >= sure]  # fmt: skip
        assert not missing, ("pairs", asked.sql(), missing)
        ids = [row["notice_id"] for row in got]
        assert not self.pair_ids.intersection(ids)
        self.pair_ids.update(ids)
        assert len(set(ids)) == len(ids)

    def check_changes(self, live: Live, got, called: str | None = None) -> None:
        asked = live.asked
        if (
            any(self.keeps[name] not in (None, "all") for name in asked.streams)
            or any(self.restored.values())
            or any(self.needed_before.values())
        ):
            live.tainted = live.tainted or self.may_be_gone(live)
        if live.tainted:
            return
        found = asked.found(self.books)
        kept, tried = {}, []
        for cut, told in live.cutoffs.items():
            answer = told_state(asked, [each for each in found if is_behind(each, cut)])
            expected = told_changes(told, answer)
            if asked.aggregates:
                keyed = bool(asked.group)
                seen = [(row["event"], row["key"] if keyed else None, row["value"]) for row in got]
            elif called is not None:
                pairs = [self.pair_told(asked, row, called) for row in got]
                seen = [(row["event"], tuple(each[:2] for each in pair), pair[0][2])
                        for row, pair in zip(got, pairs, strict=True)]  # fmt: skip
            else:
                seen = [(row["event"], (row["key"], row["seq"]), self.number(row["time"]))
                        for row in got]  # fmt: skip
            tried.append((cut, expected))
            if Counter(seen) == Counter(expected):
                kept[cut] = answer
        assert kept, ("changes", asked.sql(), seen, tried)
        live.cutoffs = kept

    def run(self, steps: int) -> None:
        rng = self.rng
        anchored = rng.randint(0, 5)
        for i in range(steps):
            if i == anchored:
                for name in self.books:
                    columns = (("k", "c"),)
                    self.register(Asked(f"anchor_{name}", (name,), columns, begin=Edge(1, True),
                                        by_rows=True))  # fmt: skip
                self.live.clear()  # anchors stay, so that rows are counted from here on
            if i < anchored:
                self.step_events()
                continue
            step = rng.choices(
                [self.step_events, self.step_time, self.step_register, self.step_change,
                 self.step_restore, self.step_invoke],
                [8, 2, 3, 1.5, 0.4, 12],
            )[0]  # fmt: skip
            step()
        for _ in range(6):
            self.step_invoke()


def changes_of(asked: Asked, old: list, now: list) -> list[tuple]:
    """Return what `since` tells: rows that left, came or are other ones."""
    if asked.aggregates:
        width = len(asked.columns)
        was = {row[:width]: row for row in asked.shown(old)}
        new = {row[:width]: row for row in asked.shown(now)}
        rows = [("delete", *row) for name, row in was.items() if name not in new]
        rows += [("insert", *row) for name, row in new.items() if name not in was]
        return rows + [("update", *row) for name, row in new.items()
                       if name in was and row != was[name]]  # fmt: skip
    if asked.distinct:
        was, new = asked.shown(old), asked.shown(now)
        rows = [("delete", *row) for row in was if row not in new]
        return rows + [("insert", *row) for row in new if row not in was]
    show = asked.shown
    rows = [("delete", *row) for row in show([each for each in old if each not in now])]
    return rows + [("insert", *row) for row in show([each for each in now if each not in old])]


def is_behind(found: tuple, cut) -> bool:
    """Tell whether all rows come from the ones on at which a query may have begun to see them."""
    cuts = cut if isinstance(cut, tuple) else (cut,)
    return all(row.number >= each for row, each in zip(found, cuts, strict=True))


def told_state(asked: Asked, found: list) -> dict:
    """Return what EMIT CHANGES keeps its owner informed of: rows by name, or values by key."""
    if not asked.aggregates and len(asked.streams) == 2:
        return {tuple((row.k, row.seq) for row in each): each[0].t for each in found}
    if not asked.aggregates:
        return {(each[0].k, each[0].seq): each[0].t for each in found}
    groups: dict = {}
    for each in found:
        groups.setdefault(each[0].k if asked.group else None, []).append(each)
    return {key: asked.aggregates[0].value(rows, asked.value) for key, rows in groups.items()}


def told_changes(told: dict, answer: dict) -> list[tuple]:
    rows = [("delete", key, value) for key, value in told.items() if key not in answer]
    rows += [("insert", key, value) for key, value in answer.items() if key not in told]
    return rows + [("update", key, value) for key, value in answer.items()
                   if key in told and told[key] != value]  # fmt: skip


def run_world(seed, steps: int = 60) -> None:
    """Run one world; an error says what was done."""
    rng = random.Random(f"folder {seed}")
    with TemporaryDirectory() as folder:
        world = World(seed, folder if rng.random() < 0.3 else None)
        try:
            world.run(steps)
        except Exception as error:
            error.add_note(f"world {seed}:\n" + "\n".join(world.log))
            raise
        finally:
            world.engine.close()
