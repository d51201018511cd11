"""The local model with products in 8 bits, which take less than half the time of those in single precision.

A vector has a cosine of about .999 with that in single precision (docs/search.md), which other processors make; what
else is embedded with a text changes nothing.
"""

import platform
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
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
    for fields in _stored_initializers(model):
        shape = [value for number, value in fields if number == _DIMENSION]
        held = dict(fields)
        if held[_DATA_TYPE] in _DATA_TYPES and _RAW_DATA in held:
            array = np.frombuffer(held[_RAW_DATA], _DATA_TYPES[held[_DATA_TYPE]])
            found[bytes(held[_NAME]).decode()] = array.reshape(shape)
    return found


def names_elsewhere(model: memoryview) -> list[str]:
    """The names of the weights that a model has no values of."""
    found = (dict(fields) for fields in _stored_initializers(model))
    return [bytes(held[_NAME]).decode() for held in found if held.get(_DATA_LOCATION)]


def _stored_initializers(model: memoryview) -> Iterator[list[Field]]:
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


GRAPH_FILE = "quantized_model.onnx"
"""Made by benchmarks/fit_quantized_model.py from the installed model, without its weights."""
JOINED = "+"
"""Between the names of matrices that are one in the graph, side by side."""
MATRIX, SCALE, SMOOTHING = ".matrix", ".scale", ".smoothing"
"""Behind a matrix' name: its numbers in 8 bits, what one of them stands for by column, and the factors by which what is
multiplied with it was made even by row."""
LEVELS = 127
CPU_INFO = Path("/proc/cpuinfo")


@lru_cache(maxsize=1)
def products_exact() -> bool:
    """Whether this processor adds up products of 8 bits without cutting them off at 16, as x86 does before VNNI."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return True
    return CPU_INFO.exists() and "vnni" in CPU_INFO.read_text()


def quantized_session(model: memoryview, options: Any) -> Any:
    """A session of onnxruntime made from the weights of `model`, an ONNX file, with the same inputs and output."""
    import onnxruntime

    graph = Path(__file__).with_name(GRAPH_FILE).read_bytes()
    held = dict(_initializers(model_weights(model), memoryview(graph)))
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in held.values()]
    options.add_external_initializers(list(held), values)
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def _initializers(weights: dict[str, NDArray[Any]], graph: memoryview) -> Iterator[tuple[str, NDArray[Any]]]:
    smoothing = model_weights(graph)
    for name in names_elsewhere(graph):
        if name.endswith(MATRIX):
            matrix = name.removesuffix(MATRIX)
            numbers, scale = _in_8_bits(weights, matrix, smoothing.get(matrix + SMOOTHING))
            yield name, numbers
            yield matrix + SCALE, scale
        elif not name.endswith(SCALE):
            # A copy: so the file that they were read from need not be held.
            yield name, np.concatenate([weights[part] for part in name.split(JOINED)])


def _in_8_bits(
    weights: dict[str, NDArray[Any]], name: str, smoothing: NDArray[Any] | None
) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """A matrix, its rows made larger where values are made smaller, in 8 bits, and the scale of each column."""
    parts = name.split(JOINED)
    numbers = np.concatenate([weights[f"{part}_q"] for part in parts], axis=1)
    scale = np.concatenate([weights[f"{part}_scale"] for part in parts], axis=1)
    if smoothing is not None:
        matrix = numbers * scale / smoothing[:, None]
        scale = np.abs(matrix).max(axis=0, keepdims=True) / np.float32(LEVELS)
        numbers = np.round(matrix / scale).astype(np.int8)
    return np.ascontiguousarray(numbers), scale[0].astype(np.float32)
