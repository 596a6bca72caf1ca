"""Quantile queries: the value at a rank, whenever the valid answer changes."""

from everquery.kinds.answer import Question
from everquery.kinds.kind import Kind, Listed
from everquery.kinds.quantile.index import QuantileIndex
from everquery.kinds.quantile.questions import answer, quantiles, shown_quantile
from everquery.kinds.quantile.sample import crowd, sample
from everquery.kinds.quantile.spec import Quantile
from everquery.kinds.quantile.sql import QuantileClause

KIND = Kind(
    package="everquery.kinds.quantile",
    spec=Quantile,
    index=QuantileIndex,
    clause=QuantileClause(),
    colours={"change": "bold blue", "enter": "green", "leave": "red"},
    sample=sample,
    crowd=crowd,
    questions={
        "answer": Question(answer, "have answers"),
        "quantiles": Question(quantiles, "keep summaries", of_query=False),
    },
    listed=Listed("quantile", shown_quantile),
    once_a_batch=lambda query: True,
)
