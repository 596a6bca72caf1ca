"""Docstrings become Markdown."""

from tools.docstrings import as_markdown, names_in, sections_of

DOCSTRING = """Do ``it``.

    More of it,
    on two lines.

    Parameters
    ----------
    lo, hi : number or ``None``
        The ends.
        Both of them.
    name : str

    Whatever ``is`` said here
    holds for all of them.

    Raises
    ------
    ValueError
        If it can't be.

    Notes
    -----
    One more thing.

    Examples
    --------
    >>> 1 + 1
    2
    """

MARKDOWN = """Do `it`.

More of it,
on two lines.

**Parameters**

- `lo`, `hi` (number or `None`): The ends. Both of them.
- `name` (str)

Whatever `is` said here holds for all of them.

**Raises**

- `ValueError`: If it can't be.

One more thing.

```python
>>> 1 + 1
2
```"""


def test_a_docstring_as_markdown():
    assert as_markdown(DOCSTRING) == MARKDOWN


def test_sections_and_names():
    titles = [section.title for section in sections_of(DOCSTRING)]
    assert titles == ["", "Parameters", "Raises", "Notes", "Examples"]
    assert names_in(DOCSTRING, "Parameters") == {"lo", "hi", "name"}
    assert names_in(DOCSTRING, "Attributes") == set()
