"""Where keys are, as queries over different attributes have seen them last."""

import numpy as np

from everquery.state.whereabouts import Whereabouts
from everquery.stream import NAMELESS
from tests.unit.state.test_sights import Model


def test_whereabouts_know_an_attribute_that_the_stream_has_not():
    model = Model(keys=2)
    model.take([(0, (1, np.nan, 3), False), (1, (np.nan, 2, 3), False)])
    where = Whereabouts(model.last_events(np.arange(2, dtype=np.int32)), model.sights)
    np.testing.assert_array_equal(where.values((NAMELESS,)), [[0, 0]])
    np.testing.assert_array_equal(where.values((0, 2)), [[1, np.nan], [3, np.nan]])
    assert where.keys.tolist() == [0, 1]
