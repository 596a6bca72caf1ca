"""The paper's tables, lemmas and examples (cei-index), each against plain enumeration."""

from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from benchmarks.papers import virtual_constructs as vc
from benchmarks.papers.virtual_constructs import (
    ContainmentIntervals,
    LogarithmicIntervals,
    UnitIntervals,
)

from everquery.errors import InvalidQueryError
from everquery.index.containment import count_pieces

KINDS = (UnitIntervals, LogarithmicIntervals, ContainmentIntervals)
LENGTHS = (1, 2, 4, 8, 16)
HALF = Fraction(1, 2)


def build(kind, intervals, *, domain, length):
    ends = np.array(intervals, np.int64).reshape(-1, 2)
    return kind.build(ends[:, 0].copy(), ends[:, 1].copy(), domain=domain, length=length)


def defined(kind, domain, length):
    """Every construct by ID, from the paper's words: sections 2.2 and 3.1."""
    if kind is UnitIntervals:
        return {position: (position, position + 1) for position in range(domain)}
    sizes = [2**j for j in range(length.bit_length())]
    if kind is LogarithmicIntervals:
        starts = ((position, size) for position in range(domain) for size in sizes)
        return {number: (start, start + size) for number, (start, size) in enumerate(starts)}
    constructs = {}
    for segment in range(-(-domain // length)):
        numbers = iter(range(2 * length * segment + 1, 2 * length * (segment + 1)))
        for size in reversed(sizes):
            for start in range(segment * length, (segment + 1) * length, size):
                constructs[next(numbers)] = (start, start + size)
    return constructs


def pieces_by_query(index, queries):
    """The construct IDs that each query was cut into."""
    found = [[] for _ in range(queries)]
    for construct in range(index.offsets.size - 1):
        for query in index.query_ids[index.offsets[construct] : index.offsets[construct + 1]]:
            found[query].append(construct)
    return found


def every_interval(domain):
    return [(low, high) for low in range(domain) for high in range(low + 1, domain + 1)]


@cache
def cei_pieces(length, shortest, longest):
    """T_(shortest, longest]: the CEIs from all starts in one segment, counted one by one."""
    queries = [(p, p + w) for p in range(length) for w in range(shortest + 1, longest + 1)]
    index = build(ContainmentIntervals, queries, domain=length + longest, length=length)
    return index.pieces


@cache
def lci_pieces(length, shortest, longest):
    """T'_(shortest, longest]: the LCIs from one start, which is none of the round ones."""
    queries = [(3, 3 + w) for w in range(shortest + 1, longest + 1)]
    return build(LogarithmicIntervals, queries, domain=3 + longest, length=length).pieces


class TestTable1:
    @pytest.mark.parametrize("length", LENGTHS)
    @pytest.mark.parametrize("segments", [1, 2, 5])
    def test_constructs_defined(self, length, segments):
        domain = segments * length
        log = length.bit_length() - 1
        printed = (domain, domain * (1 + log), 2 * domain - domain // length)
        for kind, count in zip(KINDS, printed, strict=True):
            assert len(defined(kind, domain, length)) == count
            assert build(kind, [], domain=domain, length=length).constructs == count

    def test_a_domain_that_is_no_multiple_of_the_length_is_expanded(self):
        index = build(ContainmentIntervals, [(0, 17)], domain=17, length=8)
        assert index.constructs == 3 * 15 == len(defined(ContainmentIntervals, 17, 8))
        assert index.offsets.size == 2 * 24 + 1

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("length", LENGTHS)
    @pytest.mark.parametrize("domain", [16, 48])
    def test_covering_constructs_of_every_point(self, kind, length, domain):
        index = build(kind, [], domain=domain, length=length)
        constructs = defined(kind, domain, length).values()
        for value in range(domain):
            count = sum(start <= value + 0.5 < end for start, end in constructs)
            assert index.covering(value + 0.5) == count

    @pytest.mark.parametrize("length", LENGTHS)
    def test_printed_covering_constructs(self, length):
        log = length.bit_length() - 1
        printed = (1, 2 * length - 1, log + 1)
        for kind, count in zip(KINDS, printed, strict=True):
            index = build(kind, [], domain=4 * length, length=length)
            assert {index.covering(value) for value in range(length - 1, 4 * length)} == {count}

    @pytest.mark.parametrize("length", LENGTHS[1:])
    def test_printed_covering_constructs_of_lci_fail_at_the_left_border(self, length):
        # "2L - 1 for any point" counts constructs that begin before 0, which are not defined.
        index = build(LogarithmicIntervals, [], domain=4 * length, length=length)
        assert index.covering(0) == length.bit_length()
        assert all(index.covering(value) < 2 * length - 1 for value in range(length - 1))

    @pytest.mark.parametrize("length", LENGTHS)
    def test_table_counts_lci_that_no_query_can_use(self, length):
        domain, log = 32, length.bit_length() - 1
        inside = [
            end <= domain for _, end in defined(LogarithmicIntervals, domain, length).values()
        ]
        assert inside.count(False) == 2 * length - 2 - log


class TestLemmas:
    @pytest.mark.parametrize("length", LENGTHS[1:])
    def test_lemma_3_aligned_intervals_take_a_piece_for_each_one_bit(self, length):
        queries = [(length, length + w) for w in range(1, length)]
        queries += [(2 * length - w, 2 * length) for w in range(1, length)]
        index = build(ContainmentIntervals, queries, domain=2 * length, length=length)
        pieces = [len(ids) for ids in pieces_by_query(index, len(queries))]
        assert pieces == [(high - low).bit_count() for low, high in queries]

    @pytest.mark.parametrize("bits", range(1, 8))
    def test_lemma_4(self, bits):
        assert sum(w.bit_count() for w in range(1, 2**bits)) == bits * 2 ** (bits - 1)

    @pytest.mark.parametrize("length", LENGTHS)
    def test_lemma_5(self, length):
        log = length.bit_length() - 1
        printed = HALF * length**2 + 3 * HALF * length + length**2 * log
        assert cei_pieces(length, length, 2 * length) == printed == vc.band_pieces_cei(1, length)

    @pytest.mark.parametrize("length", LENGTHS)
    @pytest.mark.parametrize("i", [1, 2, 3, 4])
    def test_lemma_6(self, length, i):
        assert cei_pieces(length, i * length, (i + 1) * length) == vc.band_pieces_cei(i, length)

    @pytest.mark.parametrize(
        ("length", "j"), [(2**k, j) for k in range(1, 6) for j in range(1, k + 1)]
    )
    def test_lemma_7(self, length, j):
        log, squared = length.bit_length() - 1, Fraction(length**2, 2**j)
        printed = HALF * squared + 3 * HALF * length + squared * log - j * squared - 2 ** (j - 1)
        counted = cei_pieces(length, length >> j, length >> (j - 1))
        assert counted == printed == vc.octave_pieces_cei(j, length)

    @pytest.mark.parametrize("length", LENGTHS)
    def test_lemma_8(self, length):
        printed = 1 + HALF * length * (length.bit_length() - 1)
        assert lci_pieces(length, 0, length) == printed == vc.band_pieces_lci(0, length)

    @pytest.mark.parametrize("length", LENGTHS)
    @pytest.mark.parametrize("i", [1, 2, 5])
    def test_lemma_9(self, length, i):
        printed = 1 + HALF * length * (length.bit_length() - 1) + i * length
        counted = lci_pieces(length, i * length, (i + 1) * length)
        assert counted == printed == vc.band_pieces_lci(i, length)


def printed_theorem_2(beta, L):
    log = L.bit_length() - 1
    first = L**2 * log + 3 * HALF * L * log - 3 * HALF * L**2 + 3 * HALF * L + 1
    others = (beta - 1) * (3 * HALF * L + L**2 * log - HALF * L**2)
    return first + others + HALF * L**2 * beta * (beta - 1)


class TestTheorems:
    @pytest.mark.parametrize("length", LENGTHS)
    @pytest.mark.parametrize("beta", [1, 2, 3, 6])
    def test_theorem_2(self, length, beta):
        counted = cei_pieces(length, 0, beta * length)
        assert counted == printed_theorem_2(beta, length) == vc.total_pieces_cei(beta, length)

    @pytest.mark.parametrize("length", LENGTHS)
    def test_theorem_2_needs_a_beta_of_one_or_more(self, length):
        log = length.bit_length() - 1
        assert vc.total_pieces_cei(0, length) == 0
        assert printed_theorem_2(0, length) == -(length**2) + 3 * HALF * length * log + 1
        assert (printed_theorem_2(0, length) < 0) == (length >= 4)

    @pytest.mark.parametrize("length", LENGTHS)
    @pytest.mark.parametrize("beta", [0, 1, 2, 3, 6])
    def test_theorem_3(self, length, beta):
        log = length.bit_length() - 1
        printed = beta + HALF * beta * length * log + HALF * beta * (beta - 1) * length
        counted = lci_pieces(length, 0, beta * length)
        assert counted == printed == vc.total_pieces_lci(beta, length)


class TestTable2:
    SETTINGS = tuple((W, L) for L in (1, 2, 4, 8, 16) for W in (16, 17, 31, 32, 45, 64))

    @pytest.mark.parametrize("W", [1, 2, 9, 200])
    def test_ui(self, W):
        queries = [(3, 3 + w) for w in range(1, W + 1)]
        assert build(UnitIntervals, queries, domain=W + 3, length=1).pieces / W == (
            vc.mean_pieces_ui(W)
        )

    @pytest.mark.parametrize(("W", "L"), SETTINGS)
    def test_lci_bounds_hold(self, W, L):
        low, high = vc.mean_pieces_bounds_lci(W, L)
        mean = lci_pieces(L, 0, W) / W
        assert (low == mean) == (W % L == 0)
        assert low <= mean < high

    @pytest.mark.parametrize(("W", "L"), SETTINGS)
    def test_cei_bounds_hold(self, W, L):
        low, high = vc.mean_pieces_bounds_cei(W, L)
        mean = cei_pieces(L, 0, W) / (W * L)
        assert (low == mean) == (W % L == 0)
        assert low <= mean < high

    @pytest.mark.parametrize(("W", "L"), SETTINGS)
    def test_bounds_are_the_printed_ones(self, W, L):
        log, beta = L.bit_length() - 1, W // L
        lci = (
            (beta + HALF * beta * L * log + HALF * beta * (beta - 1) * L) / W,
            (beta + 1 + HALF * (beta + 1) * L * log + HALF * (beta + 1) * beta * L) / W,
        )
        both = 3 * HALF * L * log + 1
        cei = (
            beta * L**2 * log + HALF * (beta**2 - 2 * beta - 2) * L**2 + both + 3 * HALF * beta * L,
            (beta + 1) * L**2 * log
            + HALF * (beta**2 - 3) * L**2
            + both
            + 3 * HALF * (beta + 1) * L,
        )
        assert vc.mean_pieces_bounds_lci(W, L) == tuple(map(float, lci))
        assert vc.mean_pieces_bounds_cei(W, L) == tuple(float(bound / (W * L)) for bound in cei)

    @pytest.mark.parametrize(("W", "L"), [(1, 2), (3, 4), (5, 16), (15, 16)])
    def test_bounds_hold_where_queries_are_shorter_than_the_length(self, W, L):
        low, high = vc.mean_pieces_bounds_cei(W, L)
        assert low == 0.0
        assert cei_pieces(L, 0, W) / (W * L) < high
        assert vc.mean_pieces_bounds_lci(W, L)[0] == 0.0
        assert lci_pieces(L, 0, W) / W < vc.mean_pieces_bounds_lci(W, L)[1]


class TestStorage:
    """Section 5.1's claims, checked by section 4's formula: W = 200, n = 100,000."""

    SMALL, LARGE = 65_536, 1_048_576

    @staticmethod
    def bytes_of(kind, domain, length):
        W = 200
        starts, widths = np.divmod(np.arange(length * W), W)
        if kind is ContainmentIntervals:
            mean = count_pieces(starts, starts + widths + 1, length.bit_length() - 1) / (length * W)
        else:
            mean = lci_pieces(length, 0, W) / W
        nothing = np.empty(0, np.int32)
        constructs = kind(domain, length.bit_length() - 1, nothing, nothing).constructs
        return vc.storage_bytes(constructs, 100_000, mean)

    def test_formula(self):
        index = build(LogarithmicIntervals, [(1, 8), (2, 15)], domain=16, length=8)
        assert vc.storage_bytes(index.constructs, 2, index.pieces / 2) == 4 * 64 + 8 * 6

    def test_large_range_cei_takes_less_than_lci(self):
        for length in (2, 4, 8, 16, 32, 64, 128):
            cei = self.bytes_of(ContainmentIntervals, self.LARGE, length)
            assert cei < self.bytes_of(LogarithmicIntervals, self.LARGE, length)

    def test_small_range_lci_takes_less_than_cei(self):
        # "Under all cases, the CEI-based index performs better than the LCI-based index in terms
        # of both storage cost and average search time": its own formula has it the other way.
        for length in (2, 4, 8, 16, 32, 64, 128, 256):
            lci = self.bytes_of(LogarithmicIntervals, self.SMALL, length)
            assert lci < self.bytes_of(ContainmentIntervals, self.SMALL, length)

    def test_cei_storage_decreases_only_while_queries_can_use_the_length(self):
        # "Under all cases, the storage cost of the CEI-based index decreases as L increases": up
        # to the largest L that fits in W; then the pieces stay and the constructs grow.
        for domain in (self.SMALL, self.LARGE):
            cost = [self.bytes_of(ContainmentIntervals, domain, 2**k) for k in range(10)]
            assert all(after < before for before, after in pairwise(cost[:8]))
            assert cost[7] < cost[8] < cost[9]


def minimal_partitions(constructs, low, high):
    """The least pieces of ``[low, high)``, and all partitions that have no more."""
    best = {high: (0, [()])}
    for start in range(high - 1, low - 1, -1):
        ways = [
            (best[end][0] + 1, (number, *others))
            for number, end in constructs[start]
            if end <= high
            for others in best[end][1]
        ]
        fewest = min(count for count, _ in ways)
        best[start] = fewest, [partition for count, partition in ways if count == fewest]
    return best[low]


class TestDecomposition:
    @pytest.mark.parametrize(("length", "segments"), [(1, 4), (2, 4), (4, 3), (8, 2), (16, 1)])
    def test_best_partition_is_the_one_minimal_partition(self, length, segments):
        # Theorem 1 and Lemma 2, and also for intervals across guiding posts.
        domain = length * segments
        starting = {start: [] for start in range(domain)}
        for number, (start, end) in defined(ContainmentIntervals, domain, length).items():
            starting[start].append((number, end))
        queries = every_interval(domain)
        index = build(ContainmentIntervals, queries, domain=domain, length=length)
        for query, pieces in zip(queries, pieces_by_query(index, len(queries)), strict=True):
            count, partitions = minimal_partitions(starting, *query)
            assert len(partitions) == 1
            assert count == len(pieces)
            assert sorted(partitions[0]) == pieces

    @pytest.mark.parametrize("length", [1, 2, 4, 8])
    def test_greedy_lci_is_minimal(self, length):
        domain = 14
        starting = {start: [] for start in range(domain)}
        for number, (start, end) in defined(LogarithmicIntervals, domain, length).items():
            starting[start].append((number, end))
        queries = every_interval(domain)
        index = build(LogarithmicIntervals, queries, domain=domain, length=length)
        for query, pieces in zip(queries, pieces_by_query(index, len(queries)), strict=True):
            count, partitions = minimal_partitions(starting, *query)
            assert count == len(pieces)
            assert tuple(pieces) in partitions

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize(("domain", "length"), [(16, 4), (19, 8)])
    def test_pieces_lie_side_by_side_and_fill_the_query(self, kind, domain, length):
        constructs = defined(kind, domain, length)
        queries = every_interval(domain)
        index = build(kind, queries, domain=domain, length=length)
        assert index.query_ids.dtype == index.offsets.dtype == np.int32
        assert index.nbytes() == 4 * (index.offsets.size + index.pieces)
        total = 0
        for (low, high), ids in zip(queries, pieces_by_query(index, len(queries)), strict=True):
            ends = sorted(constructs[number] for number in ids)
            assert [low, *(end for _, end in ends)] == [*(start for start, _ in ends), high]
            total += len(ends)
        assert index.pieces == total

    def test_lci_takes_the_largest_first(self):
        index = build(LogarithmicIntervals, [(3, 22)], domain=32, length=8)
        constructs = defined(LogarithmicIntervals, 32, 8)
        pieces = [constructs[number] for number in pieces_by_query(index, 1)[0]]
        assert pieces == [(3, 11), (11, 19), (19, 21), (21, 22)]


class TestExamples:
    def test_figure_7(self):
        # The second segment of L = 8: there value and local ID of its unit are the same number.
        index = build(ContainmentIntervals, [(8, 14), (11, 15)], domain=16, length=8)
        local = [[number - 2 * 8 for number in ids] for ids in pieces_by_query(index, 2)]
        assert local == [sorted([2, 6]), sorted([11, 6, 14])]

    # The drawing is lost to our copy of the text, which fixes all ends but Q4's right one.
    @pytest.mark.parametrize(("q4_end", "q4_pieces"), [(6, {2}), (7, {2, 6})])
    def test_figure_10(self, q4_end, q4_pieces):
        # The segment [4, 8) of L = 4 has the CEIs c1 to c7; Q1 reaches beyond it on both sides.
        queries = [(3, 9), (5, 7), (5, 8), (4, q4_end)]
        index = build(ContainmentIntervals, queries, domain=12, length=4)
        inside = [{n - 8 for n in ids if 8 < n < 16} for ids in pieces_by_query(index, 4)]
        assert inside == [{1}, {5, 6}, {5, 3}, q4_pieces]
        found = index.search(np.array([5.25, 7.0]), np.empty(1, np.int32))
        assert set(found.slots[: found.ends[0]]) == {0, 1, 2, 3}
        assert found.slots[found.ends[0] : found.ends[1]].tolist() == [2, 0]


def found_by(index, values, room=1):
    matches = index.search(values, np.empty(room, np.int32))
    starts = [matches.begin, *matches.ends[:-1]]
    return [
        sorted(matches.slots[start:end]) for start, end in zip(starts, matches.ends, strict=True)
    ]


def brute_force(queries, values):
    return [[q for q, (low, high) in enumerate(queries) if low <= v < high] for v in values]


class TestSearch:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("length", LENGTHS)
    @pytest.mark.parametrize(("domain", "widest"), [(64, 64), (101, 20), (96, 3)])
    def test_equals_brute_force(self, kind, length, domain, widest):
        rng = np.random.default_rng([domain, length])
        low = rng.integers(0, domain, 150)
        high = np.minimum(low + rng.integers(0, widest + 1, 150), domain)  # some are empty
        queries = list(zip(low.tolist(), high.tolist(), strict=True))
        values = np.concatenate([rng.uniform(0, domain, 100), np.arange(domain, dtype=np.float64)])
        values = np.append(values, np.nextafter(domain, 0))
        index = build(kind, queries, domain=domain, length=length)
        expected = brute_force(queries, values)
        assert sum(map(len, expected)) > 100
        assert found_by(index, values) == expected
        assert found_by(index, values, room=100_000) == expected

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("length", [1, 4])
    def test_every_interval_and_value_of_a_small_domain(self, kind, length):
        queries = every_interval(11)
        values = np.arange(0, 11, 0.5)
        index = build(kind, queries, domain=11, length=length)
        assert found_by(index, values) == brute_force(queries, values)

    @pytest.mark.parametrize("kind", KINDS)
    def test_no_queries_and_no_values(self, kind):
        index = build(kind, [], domain=10, length=4)
        assert index.pieces == 0
        assert index.search(np.array([0.0, 9.9]), np.empty(1, np.int32)).ends.tolist() == [0, 0]
        assert index.search(np.empty(0), np.empty(1, np.int32)).ends.size == 0

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_large_enough_array_is_reused(self, kind):
        index = build(kind, [(0, 9), (2, 5)], domain=10, length=4)
        out = np.empty(2, np.int32)
        assert index.search(np.array([3.0]), out).slots is out
        assert index.search(np.array([3.0, 4.0]), out).slots is not out


class TestValidation:
    @pytest.mark.parametrize("kind", [LogarithmicIntervals, ContainmentIntervals])
    @pytest.mark.parametrize("length", [-4, 0, 3, 12])
    def test_length_is_a_power_of_two(self, kind, length):
        with pytest.raises(InvalidQueryError, match=f"length is {length}; .* power of two"):
            build(kind, [(0, 1)], domain=10, length=length)

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("query", [(-1, 4), (5, 4), (3, 11)])
    def test_queries_are_intervals_in_the_domain(self, kind, query):
        low, high = query
        with pytest.raises(InvalidQueryError, match=rf"query 1 is \[{low}, {high}\)"):
            build(kind, [(0, 1), query], domain=10, length=4)

    @pytest.mark.parametrize("kind", KINDS)
    def test_pieces_fit_int32(self, kind):
        with pytest.raises(InvalidQueryError, match="more pieces of length 1 than int32 counts"):
            build(kind, [(0, 2**30)] * 2, domain=2**30, length=1)
