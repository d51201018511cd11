"""Make memory/embedding/quantized_model.onnx: python -m benchmarks.fit_quantized_model LOCOMO

The graph of the local embedder with products in 8 bits. Its matrices stay in the model that is installed; the file has
no more than the graph, and how the channels of each layer are evened out. A few channels are twenty times as large as
the others, and one scale for all would leave the others no digits: they are divided by a factor, by which the rows of
the matrix are multiplied (Xiao et al., "SmoothQuant", 2023, formula 4). How large they become is learned from the
questions and turns of LOCOMO, a file in LoCoMo's format. Needs onnx (benchmarks/requirements.txt), which the product
does not.
"""

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from benchmarks.system import PROJECT
from memory.embedding.local import (
    GRAPH_FILE,
    JOINED,
    LEVELS,
    MATRIX,
    MODEL_FILE,
    MODEL_SHA256,
    SCALE,
    SMOOTHING,
    model_weights,
    tokenizer,
    verified_file,
)

LAYERS, HEADS, SIZE = 6, 12, 384
TEXTS = 1_500
CHARACTERS = 200
EXPONENT = 0.6
"""How much of a channel's size moves from the values to the matrix; 0.5 to 0.8 differ by a tenth of the error."""
SMALLEST = 1e-3
EPSILON = 1e-12
"""Of the layers' normalisation."""
CONTRIB = "com.microsoft"
EMBEDDINGS = "inner.embeddings."


def matrices_of(model: onnx.ModelProto) -> list[tuple[str, str]]:
    """The name of each matrix and what is multiplied with it, in the order of the layers, six of each."""
    held = {one.name for one in model.graph.initializer}
    return [
        (node.input[1], node.input[0])
        for node in model.graph.node
        if node.op_type == "MatMul" and f"{node.input[1]}_q" in held
    ]


def channels(model: onnx.ModelProto, texts: Iterable[str]) -> dict[str, Any]:
    """The largest size of each channel of what each matrix is multiplied with, by the matrix' name."""
    pairs = matrices_of(model)
    wanted = list(dict.fromkeys(values for _, values in pairs))
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    for name in wanted:
        probe.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    session = onnxruntime.InferenceSession(probe.SerializeToString(), providers=["CPUExecutionProvider"])
    largest = {name: np.zeros(1, np.float32) for name in wanted}
    for text in texts:
        ids = np.array([tokenizer().encode(text).ids], np.int64)
        feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        for name, values in zip(wanted, session.run(wanted, feed), strict=True):
            largest[name] = np.maximum(largest[name], np.abs(values[0]).max(axis=0))
    return {matrix: largest[values] for matrix, values in pairs}


class Graph:
    """Nodes and initializers, as they are added."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []

    def node(self, kind: str, inputs: Sequence[str], output: str, domain: str = "", **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], domain=domain, **attributes))
        return output

    def given(self, name: str, values: Any) -> str:
        """An initializer that the file holds."""
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def taken(self, name: str, kind: int, shape: Sequence[int]) -> str:
        """An initializer that the session is given when it loads."""
        tensor = TensorProto(name=name, data_type=kind, dims=shape, data_location=TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value=MODEL_FILE[1])
        self.initializers.append(tensor)
        return name

    def product(self, values: str, matrix: str, shape: Sequence[int], smoothing: Any = None) -> str:
        """`values` times a matrix: by token in 8 bits, so that what else is embedded with it changes nothing."""
        if smoothing is not None:
            values = self.node("Mul", [values, self.given(matrix + SMOOTHING, smoothing)], f"{matrix}.even")
        size = self.node("ReduceMax", [self.node("Abs", [values], f"{matrix}.abs")], f"{matrix}.size", axes=[2])
        share = self.node("Div", [values, size], f"{matrix}.share")
        whole = self.node("QuantizeLinear", [share, "level", "middle"], f"{matrix}.whole")
        self.taken(matrix + MATRIX, TensorProto.INT8, shape)
        self.taken(matrix + SCALE, TensorProto.FLOAT, shape[1:])
        inputs = [whole, matrix + MATRIX, "level", matrix + SCALE, "middle", ""]
        found = self.node("MatMulIntegerToFloat", inputs, f"{matrix}.product", CONTRIB)
        return self.node("Mul", [found, size], f"{matrix}.values")


def graph_made(model: onnx.ModelProto, sizes: dict[str, Any]) -> onnx.ModelProto:
    """The graph of the query model, for matrices whose channels have these `sizes`."""
    weights = model_weights(memoryview(verified_file(*MODEL_FILE, MODEL_SHA256)))
    graph = Graph()
    graph.given("level", np.float32(1 / LEVELS))
    graph.given("middle", np.uint8(128))
    graph.given("zero", np.array([0], np.int64))
    graph.given("parts", np.array([SIZE] * 3, np.int64))

    def vector(name: str) -> str:
        return graph.taken(name, TensorProto.FLOAT, weights[name].shape)

    def smoothing_of(name: str) -> Any:
        rows = np.abs(np.concatenate([weights[f"{one}_q"] * weights[f"{one}_scale"] for one in name.split(JOINED)], 1))
        size = np.maximum(sizes[name.split(JOINED)[0]], SMALLEST)
        factors = size**EXPONENT / np.maximum(rows.max(axis=1), SMALLEST) ** (1 - EXPONENT)
        return (np.exp(np.log(factors).mean()) / factors).astype(np.float32)

    names = [name for name, _ in matrices_of(model)]
    rows = {"word": "input_ids", "position": "places"}
    length = graph.node("Shape", ["input_ids"], "length", start=1, end=2)
    graph.given("all_places", np.arange(weights[f"{EMBEDDINGS}position_embeddings.weight_q"].shape[0], dtype=np.int64))
    graph.node("Slice", ["all_places", "zero", length, "zero"], "places")
    for kind, ids in rows.items():
        name = f"{EMBEDDINGS}{kind}_embeddings.weight"
        whole = graph.taken(f"{name}_q", TensorProto.INT8, weights[f"{name}_q"].shape)
        found = graph.node("Cast", [graph.node("Gather", [whole, ids], f"{kind}.whole")], f"{kind}.float", to=1)
        scale = graph.node("Gather", [vector(f"{name}_scale"), ids], f"{kind}.scale")
        graph.node("Mul", [found, scale], kind)
    graph.node("Gather", [vector(f"{EMBEDDINGS}token_type_embeddings.weight"), "token_type_ids"], "type")
    x = graph.node("Add", [graph.node("Add", ["word", "type"], "typed"), "position"], "embedded")
    first = [vector(f"{EMBEDDINGS}LayerNorm.{part}") for part in ("weight", "bias")]
    x = graph.node("LayerNormalization", [x, *first], "normalised", axis=-1, epsilon=EPSILON)
    mask = graph.node("Cast", ["attention_mask"], "mask", to=TensorProto.INT32)
    for layer in range(LAYERS):
        own = f"inner.encoder.layer.{layer}."
        *asked, out, wide, narrow = names[6 * layer : 6 * layer + 6]

        def normalised(values: str, skip: str, name: str, bias: str, output: str, own: str = own) -> str:
            norm = [vector(f"{own}{name}.LayerNorm.{part}") for part in ("weight", "bias")]
            inputs = [values, skip, *norm, vector(f"{own}{bias}.bias")]
            return graph.node("SkipLayerNormalization", inputs, output, CONTRIB, epsilon=EPSILON)

        together = JOINED.join(asked)
        all_three = graph.product(x, together, (SIZE, 3 * SIZE), smoothing_of(together))
        kinds = ("query", "key", "value")
        parts = [f"{kind}{layer}" for kind in kinds]
        graph.nodes.append(helper.make_node("Split", [all_three, "parts"], parts, axis=-1))
        biases = [f"{own}attention.self.{kind}.bias" for kind in kinds]
        bias = graph.taken(JOINED.join(biases), TensorProto.FLOAT, (3 * SIZE,))
        attention = graph.node(
            "MultiHeadAttention", [*parts, bias, mask], f"attention{layer}", CONTRIB, num_heads=HEADS
        )
        found = graph.product(attention, out, (SIZE, SIZE))
        x = normalised(found, x, "attention.output", "attention.output.dense", f"middle{layer}")
        found = graph.product(x, wide, (SIZE, 4 * SIZE), smoothing_of(wide))
        found = graph.node("BiasGelu", [found, vector(f"{own}intermediate.dense.bias")], f"gelu{layer}", CONTRIB)
        found = graph.product(found, narrow, (4 * SIZE, SIZE), smoothing_of(narrow))
        last = "last_hidden_state" if layer == LAYERS - 1 else f"end{layer}"
        x = normalised(found, x, "output", "output.dense", last)
    return model_of(graph)


def model_of(graph: Graph) -> onnx.ModelProto:
    """The graph with the inputs and the output of the model it was made from."""
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"])
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "sequence", SIZE])
    made = helper.make_graph(graph.nodes, "quantized_model", inputs, [output], graph.initializers)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(CONTRIB, 1)]
    return helper.make_model(made, opset_imports=opsets, ir_version=9)


def texts_of(path: Path) -> list[str]:
    """Questions and turns of conversations, a part of each, in an order that follows from them."""
    samples = json.loads(path.read_text())
    questions = [one["question"] for sample in samples for one in sample["qa"]]
    turns = [
        turn["text"]
        for sample in samples
        for name, session in sample["conversation"].items()
        if isinstance(session, list)
        for turn in session
    ]
    half = TEXTS // 2
    return [text[:CHARACTERS] for texts in (questions, turns) for text in texts[:: max(len(texts) // half, 1)]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("locomo", type=Path)
    parser.add_argument("--to", type=Path, default=PROJECT / "memory" / "embedding" / GRAPH_FILE)
    arguments = parser.parse_args()
    model = onnx.load_from_string(verified_file(*MODEL_FILE, MODEL_SHA256))
    made = graph_made(model, channels(model, texts_of(arguments.locomo)))
    arguments.to.write_bytes(made.SerializeToString())
    print(f"{arguments.to}: {arguments.to.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
