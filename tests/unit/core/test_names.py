"""Names and their numbers: one at a time as many at a time."""

import pyarrow as pa
import pytest

from everquery.core.encoded_names import encode, encode_one
from everquery.core.name_loops import ABSENT
from everquery.core.names import FEW, NameTable

TEXTS = ["", "IBM", "Ünïcode", "x" * 300]


def test_one_name_is_encoded_as_several_are():
    for names in (pa.array(TEXTS), pa.array([0, -1, 2**63 - 1, -(2**63)])):
        table = NameTable()
        assert table.add(encode(names)).tolist() == [0, 1, 2, 3]
        assert [table.add(encode_one(name))[0] for name in names.to_pylist()] == [0, 1, 2, 3]
        assert [table.find_one(name) for name in names.to_pylist()] == [0, 1, 2, 3]
    assert NameTable().find_one("IBM") == ABSENT
    with pytest.raises(OverflowError):
        NameTable().find_one(2**63)


@pytest.mark.parametrize("n", [0, 1, FEW, FEW + 1])
def test_texts_of_few_and_of_many(n):
    table = NameTable()
    names = [f"query {number} ü" for number in range(FEW + 1)]
    numbers = table.add(encode(pa.array(names)))[::-1][:n]
    assert table.texts(numbers) == names[::-1][:n]
