"""Anthropic's memory tool over documents of an agent: `client.beta.messages.run_tools(…, tools=[MemoryTool()])`.

A file is the document of its path in the namespace `memories`. The model's changes are versions that people see and
undo; deleted files are retired, and the model cannot change documents that people decided. Answers and errors are those
of the SDK's own file tool, except that there are no empty directories, that a directory is as large as the files in it,
that blank lines at an end are kept, that `str_replace` without `new_str` deletes, and that two spellings of a path that
Unicode calls equivalent are one path.
"""

import json
import posixpath
import re
import unicodedata
from collections.abc import Sequence

from anthropic.lib.tools import (
    BetaAbstractMemoryTool,
    BetaAsyncAbstractMemoryTool,
    BetaFunctionToolResultType,
    ToolError,
)
from anthropic.types.beta import (
    BetaMemoryTool20250818Command,
    BetaMemoryTool20250818CreateCommand,
    BetaMemoryTool20250818DeleteCommand,
    BetaMemoryTool20250818InsertCommand,
    BetaMemoryTool20250818RenameCommand,
    BetaMemoryTool20250818StrReplaceCommand,
    BetaMemoryTool20250818ViewCommand,
)
from pydantic import BaseModel

from nous_client import calls
from nous_client.call_sequences import Steps, arun_steps, run_steps
from nous_client.client import AsyncNous, Nous
from nous_client.errors import Conflict, Invalid, NotFound
from nous_client.models import Document, PutDocument

ROOT = "/memories"
NAMESPACE = ("memories",)
MAX_LINES = 999_999
LINE_NUMBER_WIDTH = len(str(MAX_LINES))
VIEWED_LEVELS = 2
PAGE = 100
KEPT = ("index", "tags", "scope", "importance")
NOT_STORED = re.compile("[\0\ud800-\udfff]")
TRIES = 4
"""A file that somebody else changes meanwhile is read and changed again so often."""


class MemoryFiles:
    """The commands of the tool as steps. Every path is below /memories; raises ToolError with a message for the
    model."""

    def __init__(self, namespace: Sequence[str] = NAMESPACE, **keys: str) -> None:
        self.namespace = tuple(namespace)
        self.keys = {name: key for name, key in keys.items() if key}

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> Steps[str]:
        path = path_of(command.path)
        file = None if path == ROOT else (yield from self._file(path))
        if file is not None:
            return numbered(command.path, text_of(file), command.view_range)
        below = yield from self._below(path)
        if not below and path != ROOT:
            raise ToolError(f"The path {command.path} does not exist. Please provide a valid path.")
        return directory(command.path, path, below)

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> Steps[str]:
        path = path_of(command.path)
        exists = ToolError(f"File {command.path} already exists")
        if path == ROOT or (yield from self._file(path)) is not None or (yield from self._holds(path)):
            raise exists
        yield from self._directory_check(path)
        try:
            yield from self._write(path, command.file_text, 0)
        except Conflict as conflict:
            raise exists from conflict
        return f"File created successfully at: {command.path}"

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> Steps[str]:
        for _ in range(TRIES):
            file = yield from self._existing_file(command.path)
            old = text_of(file)
            new, line = replaced(command, old)
            try:
                yield from self._write(file.key, new, file.version, file)
            except Conflict:
                continue
            return "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n" + (
                lines_of(new.split("\n"), max(0, line - 2), line + 3)
            )
        raise ToolError(f"Somebody else is changing {command.path}. View it again.")

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> Steps[str]:
        for _ in range(TRIES):
            file = yield from self._existing_file(command.path)
            lines = text_of(file).split("\n")
            if lines[-1] == "":
                lines.pop()
            if not 0 <= command.insert_line <= len(lines):
                raise ToolError(
                    f"Invalid `insert_line` parameter: {command.insert_line}. "
                    f"It should be within the range [0, {len(lines)}]."
                )
            lines.insert(command.insert_line, command.insert_text.removesuffix("\n"))
            try:
                yield from self._write(file.key, "\n".join(lines) + "\n", file.version, file)
            except Conflict:
                continue
            return f"The file {command.path} has been edited."
        raise ToolError(f"Somebody else is changing {command.path}. View it again.")

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> Steps[str]:
        path = path_of(command.path)
        if path == ROOT:
            raise ToolError("Cannot delete the /memories directory itself")
        if not (yield from self._delete_all(path)):
            raise ToolError(f"The path {command.path} does not exist")
        return f"Successfully deleted {command.path}"

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> Steps[str]:
        old, new = path_of(command.old_path), path_of(command.new_path)
        if old == ROOT:
            raise ToolError("Cannot rename the /memories directory itself")
        exists = ToolError(f"The destination {command.new_path} already exists")
        file = yield from self._file(new)
        if new == ROOT or file is not None or (yield from self._holds(new)):
            raise exists
        if new.startswith(f"{old}/"):
            raise ToolError(f"The destination {command.new_path} lies in {command.old_path}")
        file = yield from self._file(old)
        moved = [file] if file is not None else (yield from self._below(old))
        if not moved:
            raise ToolError(f"The path {command.old_path} does not exist")
        yield from self._directory_check(new)
        for document in moved:
            yield from self._move(document, new + document.key.removeprefix(old), exists)
        return f"Successfully renamed {command.old_path} to {command.new_path}"

    def _move(self, document: Document | None, path: str, exists: ToolError) -> Steps[None]:
        # What is written first is never lost, should this end half-way.
        base_version = 0
        for _ in range(TRIES):
            if document is None:
                return
            try:
                base_version = yield from self._write(path, text_of(document), base_version, document)
            except Conflict as conflict:
                raise exists from conflict
            try:
                yield from self._delete(document.key, document.version)
            except Conflict:
                document = yield from self._file(document.key)
                continue
            return
        raise ToolError(f"Somebody else is changing the files that become {path}. View them again.")

    def clear(self) -> Steps[str]:
        yield from self._delete_all(ROOT)
        return "All memory cleared"

    def _file(self, path: str) -> Steps[Document | None]:
        try:
            document: Document = yield calls.document(self.namespace, path, self.keys)
        except NotFound:
            return None
        except Invalid as refusal:
            raise ToolError(refusal.detail) from refusal
        return document

    def _existing_file(self, path: str) -> Steps[Document]:
        file = yield from self._file(path_of(path))
        if file is not None:
            return file
        if path_of(path) == ROOT or (yield from self._holds(path_of(path))):
            raise ToolError(f"The path {path} is not a file.")
        raise ToolError(f"The path {path} does not exist. Please provide a valid path.")

    def _below(self, path: str, *, any_one: bool = False) -> Steps[list[Document]]:
        """The files of a directory and those below it, in the order of their paths; with `any_one` at least one."""
        found: list[Document] = []
        offset = 0
        while not (any_one and found):
            options = {"key_prefix": f"{path}/", "limit": PAGE, "offset": offset, **self.keys}
            page = (yield calls.search_documents(self.namespace, "", options)).items
            # The server also gives what lies in narrower namespaces.
            offset += len(page)
            found.extend(one.document for one in page if tuple(one.document.namespace) == self.namespace)
            if len(page) < PAGE:
                break
        return sorted(found, key=lambda document: document.key.split("/"))

    def _holds(self, path: str) -> Steps[bool]:
        """Whether there are files below a path."""
        return bool((yield from self._below(path, any_one=True)))

    def _directory_check(self, path: str) -> Steps[None]:
        """Raises ToolError if the directory of a new file is a file itself."""
        parent = posixpath.dirname(path)
        while parent != ROOT:
            if (yield from self._file(parent)) is not None:
                raise ToolError(f"The path {parent} is not a directory.")
            parent = posixpath.dirname(parent)

    def _write(self, path: str, text: str, base_version: int, earlier: Document | None = None) -> Steps[int]:
        """The version of a file that is written, which is searched, tagged and weighed as the `earlier` one was.

        Raises Conflict where the file has another version by now, and ToolError for any other refusal.
        """
        kept = {name: getattr(earlier, name) for name in KEPT} if earlier is not None else {}
        options = {**kept, "base_version": base_version, **self.keys}
        try:
            put: PutDocument = yield calls.put_document(self.namespace, path, {"content": text}, options)
        except (Conflict, Invalid) as refusal:
            if isinstance(refusal, Conflict) and "version" in refusal.problem:
                raise
            raise ToolError(refusal.detail) from refusal
        return put.document.version

    def _delete(self, path: str, base_version: int | None = None) -> Steps[None]:
        """Delete a file if it exists. Raises Conflict where it has another version than `base_version` by now."""
        options = {"base_version": base_version, **self.keys}
        try:
            yield calls.delete_document(self.namespace, path, options, missing_ok=True)
        except NotFound:
            return
        except (Conflict, Invalid) as refusal:
            if isinstance(refusal, Conflict) and base_version is not None and "version" in refusal.problem:
                raise
            raise ToolError(refusal.detail) from refusal

    def _delete_all(self, path: str) -> Steps[bool]:
        """Whether there was anything to delete: a file, or the files of a directory."""
        if path != ROOT and (yield from self._file(path)) is not None:
            yield from self._delete(path)
            return True
        below = yield from self._below(path)
        for document in below:
            yield from self._delete(document.key)
        return bool(below)


class MemoryTool(BetaAbstractMemoryTool):
    """The memory tool for `Anthropic`. `project`, `task` and `user` are the keys to which its files belong."""

    def __init__(self, nous: Nous | None = None, *, project: str = "", task: str = "", user: str = "") -> None:
        super().__init__()
        self.nous = nous or Nous()
        self.files = MemoryFiles(project=project, task=task, user=user)

    def execute(self, command: BetaMemoryTool20250818Command) -> BetaFunctionToolResultType:
        arguments_check(command)
        return super().execute(command)

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        return run_steps(self.nous, self.files.view(command))

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        return run_steps(self.nous, self.files.create(command))

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        return run_steps(self.nous, self.files.str_replace(command))

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        return run_steps(self.nous, self.files.insert(command))

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        return run_steps(self.nous, self.files.delete(command))

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        return run_steps(self.nous, self.files.rename(command))

    def clear_all_memory(self) -> str:
        return run_steps(self.nous, self.files.clear())


class AsyncMemoryTool(BetaAsyncAbstractMemoryTool):
    """The memory tool for `AsyncAnthropic`. See `MemoryTool`."""

    def __init__(self, nous: AsyncNous | None = None, *, project: str = "", task: str = "", user: str = "") -> None:
        super().__init__()
        self.nous = nous or AsyncNous()
        self.files = MemoryFiles(project=project, task=task, user=user)

    async def execute(self, command: BetaMemoryTool20250818Command) -> BetaFunctionToolResultType:
        arguments_check(command)
        return await super().execute(command)

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        return await arun_steps(self.nous, self.files.view(command))

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        return await arun_steps(self.nous, self.files.create(command))

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        return await arun_steps(self.nous, self.files.str_replace(command))

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        return await arun_steps(self.nous, self.files.insert(command))

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        return await arun_steps(self.nous, self.files.delete(command))

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        return await arun_steps(self.nous, self.files.rename(command))

    async def clear_all_memory(self) -> str:
        return await arun_steps(self.nous, self.files.clear())


def arguments_check(command: BaseModel) -> None:
    """Raises ToolError for an argument that is missing or of another type: the SDK does not check what models send."""
    for name, field in type(command).model_fields.items():
        value, kind = getattr(command, name, None), int if name == "insert_line" else str
        optional = name == "new_str" or not field.is_required()
        if name != "view_range" and not (isinstance(value, kind) or (optional and value is None)):
            raise ToolError(f"`{name}` must be {'a whole number' if kind is int else 'text'}.")
        if isinstance(value, str) and NOT_STORED.search(value):
            raise ToolError(f"`{name}` has a NUL or half of a surrogate pair, which cannot be stored.")
    lines = getattr(command, "view_range", None)
    if lines is not None and not (isinstance(lines, list) and all(isinstance(line, int) for line in lines)):
        raise ToolError("`view_range` must be two line numbers.")


def path_of(path: str) -> str:
    """A path in its one form. Raises ToolError for one that is not below /memories."""
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise ToolError(f"Path must start with /memories, got: {path}")
    found = unicodedata.normalize("NFC", posixpath.normpath(path))
    if found != ROOT and not found.startswith(f"{ROOT}/"):
        raise ToolError(f"Path {path} would escape /memories directory")
    return found


def text_of(document: Document) -> str:
    """The text of a file; of a document that was written elsewhere, its value as JSON."""
    content = document.value.get("content")
    if isinstance(content, str) and len(document.value) == 1:
        return content
    return json.dumps(document.value, indent=2, ensure_ascii=False)


def lines_of(lines: Sequence[str], begin: int, end: int) -> str:
    """Lines from `begin`, counted from 0, to before `end`, with their numbers."""
    shown = lines[begin:end]
    return "\n".join(f"{str(begin + place).rjust(LINE_NUMBER_WIDTH)}\t{line}" for place, line in enumerate(shown, 1))


def numbered(path: str, text: str, view_range: Sequence[int] | None) -> str:
    """A file as the tool shows it."""
    lines = text.split("\n")
    if len(lines) > MAX_LINES:
        raise ToolError(f"File {path} exceeds maximum line limit of 999,999 lines.")
    begin, end = 0, len(lines)
    if view_range and len(view_range) == 2:
        begin, end = max(1, view_range[0]) - 1, len(lines) if view_range[1] == -1 else view_range[1]
    return f"Here's the content of {path} with line numbers:\n{lines_of(lines, begin, end)}"


def directory(shown: str, path: str, files: Sequence[Document]) -> str:
    """A directory as the tool shows it, two levels deep, without what begins with a dot."""
    sizes: dict[tuple[str, ...], int] = {}
    whole = 0
    for document in files:
        parts = document.key.removeprefix(f"{path}/").split("/")
        size = len(text_of(document).encode())
        whole += size
        if any(part.startswith(".") for part in parts[:VIEWED_LEVELS]):
            parts = parts[: next(place for place, part in enumerate(parts) if part.startswith("."))]
            names = [(*parts[:depth], "") for depth in range(1, len(parts) + 1)]
        else:
            names = [(*parts[:depth], "") for depth in range(1, len(parts))] + [tuple(parts)]
        for name in names:
            if len([part for part in name if part]) <= VIEWED_LEVELS:
                sizes[name] = sizes.get(name, 0) + size
    header = f"Here're the files and directories up to 2 levels deep in {shown}, excluding hidden items:"
    lines = [f"{file_size(whole)}\t{shown}"]
    lines.extend(f"{file_size(sizes[name])}\t{shown}/{'/'.join(name)}" for name in sorted(sizes))
    return f"{header}\n" + "\n".join(lines)


def file_size(size: int) -> str:
    """Bytes as the tool writes them: 0B, 512B, 1.5K."""
    if size == 0:
        return "0B"
    unit = min((size.bit_length() - 1) // 10, 3)
    number = size / 1024**unit
    return f"{int(number) if number == int(number) else f'{number:.1f}'}{'BKMG'[unit]}"


def replaced(command: BetaMemoryTool20250818StrReplaceCommand, text: str) -> tuple[str, int]:
    """The text after the replacement, and the line of it, counted from 0. Raises ToolError unless there is one."""
    old = command.old_str
    places = [place for place in range(len(text)) if text.startswith(old, place)]
    if text.count(old) == 0:
        raise ToolError(f"No replacement was performed, old_str `{old}` did not appear verbatim in {command.path}.")
    if text.count(old) > 1:
        lines = ", ".join(str(text[:place].count("\n") + 1) for place in places)
        raise ToolError(
            f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}. "
            "Please ensure it is unique"
        )
    # The SDK does not insist on the text, which models leave out to delete.
    return text.replace(old, getattr(command, "new_str", None) or ""), text[: places[0]].count("\n")
