"""The stored weights of an ONNX model, by name, for what reads its layers otherwise than the embedder does.

Only what is needed of the format is read (onnx.proto: ModelProto.graph, GraphProto.initializer, TensorProto), which
spares the product a dependency of twenty megabytes.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Field = tuple[int, Any]
"""The number of a protobuf field and its value: an int, or the bytes of a message, a text or an array."""
_GRAPH, _INITIALIZER = 7, 5
_DIMENSION, _DATA_TYPE, _NAME, _RAW_DATA, _DATA_LOCATION = 1, 2, 8, 9, 14
_DATA_TYPES = {1: np.float32, 3: np.int8}
_VARIABLE, _SIZED, _FIXED = 0, 2, {1: 8, 5: 4}
"""How the value of a field is written, and how many bytes those of a fixed size have."""


def model_weights(model: memoryview) -> dict[str, NDArray[Any]]:
    """The weights of a model by name, those in single precision and in 8 bits; they are views of `model`."""
    found = {}
    for fields in _initializers(model):
        shape = [value for number, value in fields if number == _DIMENSION]
        held = dict(fields)
        if held[_DATA_TYPE] in _DATA_TYPES and _RAW_DATA in held:
            array = np.frombuffer(held[_RAW_DATA], _DATA_TYPES[held[_DATA_TYPE]])
            found[bytes(held[_NAME]).decode()] = array.reshape(shape)
    return found


def names_elsewhere(model: memoryview) -> list[str]:
    """The names of the weights that a model has no values of."""
    found = (dict(fields) for fields in _initializers(model))
    return [bytes(held[_NAME]).decode() for held in found if held.get(_DATA_LOCATION)]


def _initializers(model: memoryview) -> Iterator[list[Field]]:
    graphs = (value for number, value in _fields(model) if number == _GRAPH)
    for tensor in (value for graph in graphs for number, value in _fields(graph) if number == _INITIALIZER):
        yield list(_fields(tensor))


def _fields(message: memoryview) -> Iterator[Field]:
    place = 0
    while place < len(message):
        key, place = _number(message, place)
        written = key & 7
        if written == _VARIABLE:
            value, place = _number(message, place)
            yield key >> 3, value
            continue
        size, place = _number(message, place) if written == _SIZED else (_FIXED[written], place)
        yield key >> 3, message[place : place + size]
        place += size


def _number(message: memoryview, place: int) -> tuple[int, int]:
    """The number of variable length at `place`, and where the next field begins."""
    value = shift = 0
    while (byte := message[place]) > 127:
        value |= (byte & 127) << shift
        shift, place = shift + 7, place + 1
    return value | byte << shift, place + 1
