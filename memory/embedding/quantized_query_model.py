"""The local model as questions are embedded with it: its products are in 8 bits, which takes less than half the time.

What is stored is embedded in single precision, so that a memory's vector is the same wherever it was made. A question's
has a cosine of about .999 with that (docs/search.md); what else is embedded with it changes nothing.
"""

import platform
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory.embedding.model_weights import model_weights, names_elsewhere

GRAPH_FILE = "query_model.onnx"
"""Made by benchmarks/fit_query_model.py from the installed model, without its weights."""
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


def query_session(model: memoryview, options: Any) -> Any:
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
            yield name, np.concatenate([weights[one] for one in name.split(JOINED)])


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
