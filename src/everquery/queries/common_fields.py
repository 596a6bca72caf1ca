"""The fields that queries of every kind have, declared once: name, meaning, and what they take."""

from __future__ import annotations

from everquery.queries.fields import Field, SpanField

ID = Field(
    "id",
    meaning="The owner's name for the query, unique among live queries.",
    takes="string",
    in_clause=True,
)
BOX = Field(
    "box",
    meaning="The ranges of attributes that events are looked for in; an empty box holds all.",
    takes="ranges by attribute",
    in_clause=True,
)
KEY = Field("key", meaning="See only this key's events.", takes="string or integer", in_clause=True)
OWNER = Field("owner", meaning="Whose query it is.", takes="string")
LABELS = Field("labels", meaning="Whatever the owner wants to find it by.", takes="strings by name")
TTL = SpanField(
    "ttl", meaning="How long the query lives; it then ends by itself, with a notice `end`."
)
THROTTLE = SpanField(
    "throttle",
    meaning="At most one notice a key in this time; those held back are summed up at its end.",
)
