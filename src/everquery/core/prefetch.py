"""Telling the processor which line of memory will be read soon.

A loop that reads a large array at random places waits for memory in most of its turns. With a few
turns' notice the waits overlap: the ids of a million notices of a million queries took 60 ns each
without it, and 12 with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numba
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from everquery.core.arrays import Array

AHEAD = 24  # turns of a loop of some 10 ns each: about as long as memory takes


def _prefetch_row(typing_context: Any, array: Any, row: Any) -> Any:  # noqa: ANN401 - Numba's own
    """Return the signature and the code; `array` is contiguous."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        data = context.make_array(signature.args[0])(context, builder, arguments[0])
        word, byte = ir.IntType(64), ir.IntType(8).as_pointer()
        width = data.itemsize
        if signature.args[0].ndim == 2:
            width = builder.mul(width, builder.extract_value(data.shape, 1))
        offset = builder.mul(arguments[1], builder.sext(width, word))
        place = builder.gep(builder.bitcast(data.data, byte), [offset])
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        # To be read; to be kept in all caches; data, not instructions.
        builder.call(function, [place, *(ir.Constant(number, value) for value in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(array, types.intp), code


def _nothing(array: Array, row: int) -> None:
    """Do nothing: interpreted loops have no use for it."""


_disabled = bool(getattr(numba.config, "DISABLE_JIT", False))
prefetch_row: Callable[[Array, int], None]
prefetch_row = _nothing if _disabled else cast("Any", intrinsic(_prefetch_row))
"""Fetch row number ``row`` of a contiguous array of one or two dimensions; only in kernels."""
