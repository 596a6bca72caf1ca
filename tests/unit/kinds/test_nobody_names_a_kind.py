"""No module outside ``kinds`` names a kind of query: it would be forgotten there by the next one.

Docstrings and comments may, for examples; so may the public names, the demo and its market, a
picture that is wholly about one kind, and filters of a network that become queries of one. Some
words mean something else in networks.
"""

import ast
from pathlib import Path

import pytest

import everquery
from everquery.kinds import KINDS

SOURCE = Path(everquery.__file__).parent
OWN = {name: kind for name, kind in KINDS.items() if kind.package.startswith("everquery.")}
WORDS = {*OWN, *(kind.spec.__name__ for kind in OWN.values())}
WORDS |= {kind.index.__name__ for kind in OWN.values()}

EXPORTS = ("__init__.py", "public.py", "testing/__init__.py")
DEMO = ("cli/demo", "sources/market")
ABOUT_ONE = ("cli/plot.py", "network/optimizer/siblings.py")
NETWORKS = ("network/", "spark/network/")
OF_NETWORKS = {"Window", "window", "Select", "select", "quantile"}
ALLOWED = (*EXPORTS, *DEMO, *ABOUT_ONE)
MODULES = [
    path.relative_to(SOURCE).as_posix()
    for path in sorted(SOURCE.rglob("*.py"))
    if path.relative_to(SOURCE).parts[0] != "kinds"
]


def named(tree):
    """Yield the names, strings and imported modules of a module, with their lines."""
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                docstrings.add(first.value)
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) if not name.islower():
                yield name, node.lineno  # a variable may well be called range or border
            case ast.Constant(value=str(text)) if node not in docstrings:
                yield text, node.lineno
            case ast.ImportFrom(module=str(module)) if module.startswith("everquery"):
                for name in (*module.split("."), *(alias.name for alias in node.names)):
                    yield name, node.lineno
            case ast.Import():
                for alias in node.names:
                    for name in alias.name.split(".") if "everquery" in alias.name else ():
                        yield name, node.lineno  # others may have a module of the name


ASKING = [each for each in MODULES if not each.startswith(ALLOWED)]


@pytest.mark.parametrize("module", ASKING)
def test_nobody_names_a_kind(module):
    tree = ast.parse((SOURCE / module).read_text(encoding="utf-8"))
    words = WORDS - OF_NETWORKS if module.startswith(NETWORKS) else WORDS
    found = {(line, word) for word, line in named(tree) if word in words}
    assert not found, f"src/everquery/{module} names {sorted(found)}; ask the kind instead"


def test_this_would_find_one():
    text = 'from everquery.kinds.border.spec import Border\nkind = "quantile"\nx = Range("q", {})\n'
    found = {word for word, _ in named(ast.parse(text)) if word in WORDS}
    assert found == {"border", "Border", "quantile", "Range"}
