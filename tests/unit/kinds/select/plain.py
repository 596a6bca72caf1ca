"""Select queries in plain Python: all rows in a list, one after the other, nothing clever."""

from collections import Counter
from fractions import Fraction
from itertools import product

from everquery.kinds.select.twin import COMPARE
from everquery.kinds.twin import is_within


class PlainStream:
    """The accepted rows of a stream, as dicts, and how far time has come."""

    def __init__(self, stream):
        self.stream = stream
        self.rows = []
        self.now = None
        self._last = {}

    def process(self, events):
        if self.stream.time is not None:
            events = sorted(events, key=lambda event: event[self.stream.time])
        for event in events:
            key = event.get(self.stream.key)
            if self.stream.time is not None:
                time = event[self.stream.time]
                if key in self._last and time < self._last[key]:
                    continue  # late
                self._last[key] = time
                self.now = time if self.now is None else max(self.now, time)
            self.rows.append(event)

    def window(self, plan, now):
        n = len(self.rows)
        return [
            row
            for number, row in enumerate(self.rows)
            if self._after(plan.begin, number, row, n, now)
            and self._before(plan.end, number, row, n, now)
        ]

    def _after(self, bound, number, row, n, now):
        match bound.kind:
            case "oldest":
                return True
            case "rows_ago":
                return number >= n - bound.amount
            case "row":
                return number >= bound.amount
            case "now":
                return row[self.stream.time] >= now if self.stream.time else False
            case "ago":
                return row[self.stream.time] >= now - bound.amount
            case "time":
                return row[self.stream.time] >= bound.amount

    def _before(self, bound, number, row, n, now):
        match bound.kind:
            case "now":
                return True
            case "rows_ago":
                return number < n - bound.amount
            case "row":
                return number < bound.amount
            case "ago":
                return row[self.stream.time] <= now - bound.amount
            case "time":
                return row[self.stream.time] <= bound.amount


def answer(query, streams):
    """Return the rows of an answer, as tuples."""
    plan = query.parsed
    now = max((each.now for each in streams if each.now is not None), default=None)
    windows = [each.window(plan, now) for each in streams]
    chosen = [pair for pair in product(*windows) if satisfies(query, streams, pair)]
    items = plan.items
    if items[0].function is None and items[0].column is None:
        columns = [(s, name) for s, each in enumerate(streams) for name in each.stream.columns()]
        found = [tuple(pair[s][name] for s, name in columns) for pair in chosen]
    elif plan.aggregates:
        found = aggregated(plan, chosen)
    else:
        found = [tuple(value_of(item.column, pair) for item in items) for pair in chosen]
    return list(dict.fromkeys(found)) if plan.distinct else found


def value_of(column, pair):
    return pair[column.side].get(column.name)


def satisfies(query, streams, pair):
    stream = streams[0].stream
    if query.key is not None and pair[0][stream.key] != query.key:
        return False
    if not all(is_within(interval, pair[0].get(name)) for name, interval in query.box.items()):
        return False
    for factor in query.parsed.factors:
        left = value_of(factor.left, pair)
        right = factor.constant
        if factor.right is not None:
            right = value_of(factor.right, pair)
            if right is not None and not isinstance(right, str):
                right += factor.constant
        if left is None or right is None or not COMPARE[factor.operator](left, right):
            return False
    return True


def aggregated(plan, chosen):
    groups = {}
    if not plan.groups:
        groups[()] = []
    for pair in chosen:
        groups.setdefault(tuple(value_of(each, pair) for each in plan.groups), []).append(pair)
    found = []
    for group, pairs in groups.items():

        def value(item, group=group, pairs=pairs):
            if item.function is None:
                return group[plan.groups.index(item.column)]
            return aggregate(item, pairs)

        if all(
            (held := value(each.item)) is not None and COMPARE[each.operator](held, each.constant)
            for each in plan.having
        ):
            found.append(tuple(value(item) for item in plan.items))
    return found


def aggregate(item, pairs):
    if item.column is None:
        return len(pairs)
    values = [value_of(item.column, pair) for pair in pairs]
    values = [value for value in values if value is not None]
    if item.function == "COUNT":
        return len(values)
    if item.function == "COUNT DISTINCT":
        return len(set(values))
    if not values:
        return None
    if item.function == "VAR_POP":
        mean = sum(map(Fraction, values)) / len(values)
        return float(sum((value - mean) ** 2 for value in map(Fraction, values)) / len(values))
    summed = sum(values)
    return {"SUM": summed, "AVG": summed / len(values), "MIN": min(values), "MAX": max(values)}[
        item.function
    ]


def assert_same(table, wanted):
    """Compare an answer with rows, whatever their order, up to the last digits of numbers."""
    ours = Counter(_rounded(row.values()) for row in table.to_pylist())
    assert ours == Counter(map(_rounded, wanted))


def _rounded(row):
    return tuple(round(each, 9) if isinstance(each, float) else each for each in row)
