"""Arrays of numbers from PostgreSQL as those of numpy."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import Loader
from psycopg.postgres import types
from psycopg.pq import Format

_ELEMENTS = {
    types[name].oid: np.dtype([("bytes", ">i4"), ("value", kind)])
    for name, kind in (("int4", ">i4"), ("int8", ">i8"), ("float8", ">f8"))
}
"""By the type of an element how each is sent: its length, then itself."""


class NumberArray(Loader):
    """An array without NULLs in one row of numbers, however many dimensions it has."""

    format = Format.BINARY

    def load(self, data: Buffer) -> NDArray[Any]:
        """The numbers in their order. Raises ValueError where one is NULL."""
        dimensions, nulls, kind = np.frombuffer(data, ">i4", 3).tolist()
        if nulls:
            raise ValueError("An array of numbers has a NULL.")
        values: NDArray[Any] = np.frombuffer(data, _ELEMENTS[kind], offset=12 + 8 * dimensions)["value"]
        return values.astype(values.dtype.newbyteorder("="))


def number_arrays_read(context: AdaptContext) -> None:
    """Let a cursor or a connection read them so from here on."""
    if context.adapters is not None:
        for name in ("int4", "int8", "float8"):
            context.adapters.register_loader(types[name].array_oid, NumberArray)
