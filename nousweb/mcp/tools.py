"""The tools: operations of the API with a name, a title and hints for models. And the resources that a client can read
without calling one, and the prompt."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import unquote

import mcp_types as types
from mcp_types.jsonrpc import INVALID_PARAMS
from pydantic_core import to_json

from identity.principal import Principal
from nousweb.lib.errors import existing
from nousweb.mcp.errors import ProtocolError
from nousweb.mcp.operations import Answer, Operation, self_contained

RETRIED = (429, 503)


@dataclass(frozen=True)
class MemoryTool:
    """A tool: its name, the operation that it calls, and when a model should use it.

    `fixed` are arguments that the model does not choose. `destructive` and `idempotent` are hints about tools that
    write.
    """

    name: str
    title: str
    operation: Operation
    purpose: str
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    fixed: Mapping[str, Any] = field(default_factory=dict)

    def definition(self) -> types.Tool:
        """The tool in `tools/list`."""
        return types.Tool(
            name=self.name,
            title=self.title,
            description=f"{self.purpose}\n\n{self.operation.document.get('description', '')}".strip(),
            input_schema=self._input_schema(),
            output_schema=self_contained(self.operation.answer),
            annotations=types.ToolAnnotations(
                title=self.title,
                read_only_hint=self.read_only,
                destructive_hint=None if self.read_only else self.destructive,
                idempotent_hint=None if self.read_only else self.idempotent,
                open_world_hint=False,
            ),
        )

    def call(self, by: Principal, arguments: Mapping[str, Any]) -> types.CallToolResult:
        """Call the operation for `by`. A refusal is a result with its reason, so that the model can correct its
        call."""
        chosen = next((name for name in self.fixed if name in arguments), None)
        if chosen is not None:
            return _refused(f"{chosen}: there is no such argument.")
        try:
            answer = self.operation.call(by, {**arguments, **self.fixed})
        except ValueError as error:
            return _refused(str(error))
        if answer.refused:
            return _refused(_reason(answer))
        return types.CallToolResult(content=self._content(answer.body), structured_content=answer.body)

    def _content(self, body: Mapping[str, Any]) -> list[types.ContentBlock]:
        return [types.TextContent(text=to_json(body).decode())]

    def _input_schema(self) -> dict[str, Any]:
        properties, required = {}, []
        for parameter in self.operation.parameters:
            properties[parameter["name"]] = parameter["schema"]
            if parameter.get("required"):
                required.append(parameter["name"])
        if body := self.operation.body:
            properties |= body["properties"]
            required += body.get("required", [])
        return self_contained(
            {
                "type": "object",
                "properties": {name: schema for name, schema in properties.items() if name not in self.fixed},
                "required": [name for name in required if name not in self.fixed],
                "additionalProperties": False,
            }
        )


class ContextTool(MemoryTool):
    """The tool whose answer is read as a prompt, so that its text is the prompt itself and not JSON around it."""

    def _content(self, body: Mapping[str, Any]) -> list[types.ContentBlock]:
        note = f"Context id: {body['id']}."
        if body["censor_verdict"] == "block":
            reasons = [body["censor_reason"], *(censor["reason"] for censor in body["censors"])]
            note += f" Stop: a censor blocks this input. {' '.join(filter(None, reasons))}"
        return [types.TextContent(text=body["system_prompt"]), types.TextContent(text=note)]


TOOLS = (
    ContextTool(
        "get_context",
        "Get the context",
        Operation("POST", "context"),
        "Call this first on each turn: the prompt to think with, made of who you are and of what you remember about "
        "the input. Keep its id for report_answer.",
    ),
    MemoryTool(
        "recall",
        "Search memory",
        Operation("GET", "recall"),
        "Use this in the middle of a turn to search for memories that the context did not include. Give the context's "
        "id as `context`.",
        read_only=True,
    ),
    MemoryTool(
        "recall_recent",
        "List the last conversations",
        Operation("GET", "recall/recent"),
        "Use this to see what was last talked about: titles and times of the last conversations.",
        read_only=True,
    ),
    MemoryTool(
        "expand",
        "Expand a memory",
        Operation("GET", "recall/{type}/{memory_id}"),
        "Use this on a memory that recall found: all of it, with what was said around it, or where it comes from. Give "
        "the context's id as `context`.",
        read_only=True,
    ),
    MemoryTool(
        "learn_fact",
        "Learn a fact",
        Operation("POST", "facts"),
        "Use this when you have learnt something that will still matter in later conversations. One sentence a call. "
        'Name the attribute and its value if the sentence states one, such as "job title" and "nurse".',
    ),
    MemoryTool(
        "report_source",
        "Report a source",
        Operation("POST", "sources"),
        "Call this after reading a page or file that memories were learned from, with the SHA-256 of what you read.",
    ),
    MemoryTool(
        "log_events",
        "Record events",
        Operation("POST", "events"),
        "Record what was said and done, such as the messages of this turn. With a `key`, an event is stored once.",
    ),
    MemoryTool(
        "report_answer",
        "Report the answer",
        Operation("POST", "context/{run_id}/response"),
        "Call this with your answer once it is written, so that memories which were of use come up again.",
        idempotent=True,
    ),
    MemoryTool(
        "report_outcome",
        "Report how it ended",
        Operation("POST", "context/{run_id}/outcome"),
        "Say whether the task that a context was for succeeded.",
        idempotent=True,
    ),
    MemoryTool(
        "propose_identity_change",
        "Propose a change of identity",
        Operation("PUT", "identity/{section}"),
        "Propose new text for a section of your identity. A person decides; nothing changes before.",
        fixed={"mode": "propose"},
    ),
    MemoryTool(
        "check_censors",
        "Check a text",
        Operation("POST", "censors/check"),
        "Check a text or a plan before you act on it: it may break a rule of what not to say or do.",
    ),
    MemoryTool(
        "open_episode",
        "Open an episode",
        Operation("POST", "episodes"),
        "Begin an episode: a conversation or a piece of work that will be remembered as one.",
    ),
    MemoryTool(
        "close_episode",
        "Close an episode",
        Operation("POST", "episodes/{episode_id}/close"),
        "End an episode with its summary, outcome and lessons.",
    ),
    MemoryTool(
        "working_memory",
        "Look at working memory",
        Operation("GET", "working/{session_id}"),
        "This session's working memory: task, items and open threads.",
        read_only=True,
    ),
    MemoryTool(
        "keep_in_mind",
        "Add to working memory",
        Operation("POST", "working/{session_id}/items"),
        "Keep something in mind for the rest of this session only.",
    ),
    MemoryTool(
        "put_document",
        "Keep a document",
        Operation("PUT", "documents"),
        "Keep a JSON object under a key, such as notes or a plan that you will change again. Earlier versions stay.",
        idempotent=True,
    ),
    MemoryTool(
        "get_document",
        "Read a document",
        Operation("GET", "documents/item"),
        "Read what is kept under a key.",
        read_only=True,
    ),
    MemoryTool(
        "list_documents",
        "List documents",
        Operation("GET", "documents"),
        "Look at which documents there are, the latest first.",
        read_only=True,
    ),
    MemoryTool(
        "search_documents",
        "Search documents",
        Operation("POST", "documents/search"),
        "Find documents by what they mean, or by what their fields hold.",
        read_only=True,
    ),
    MemoryTool(
        "delete_document",
        "Retire a document",
        Operation("DELETE", "documents/item"),
        "Take a document away. Its versions stay, and people may restore one.",
        destructive=True,
    ),
)


@cache
def definitions() -> tuple[types.Tool, ...]:
    """The result of `tools/list`; built once, since the API does not change while the process runs."""
    return tuple(tool.definition() for tool in TOOLS)


def tool_named(name: str) -> MemoryTool:
    """The tool `name`. Raises ProtocolError where there is none."""
    return existing(
        next((tool for tool in TOOLS if tool.name == name), None),
        ProtocolError(INVALID_PARAMS, f"There is no tool {name[:100]!r}."),
    )


def _reason(answer: Answer) -> str:
    problem = answer.body
    again = f" Try again after {answer.headers['Retry-After']} s." if answer.status in RETRIED else ""
    return f"{problem['title']} ({answer.status}, {problem['code']}): {problem['detail']}{again}"


def _refused(reason: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=reason)], is_error=True)


JSON = "application/json"


@dataclass(frozen=True)
class MemoryResource:
    """Something to read at `uri`; the part of a template in braces is the operation's argument of that name."""

    uri: str
    name: str
    title: str
    description: str
    operation: Operation

    @property
    def argument(self) -> str:
        """The variable of the template; "" if it has none."""
        return self.uri.partition("{")[2].rstrip("}")

    def match(self, uri: str) -> dict[str, str] | None:
        """The arguments that `uri` gives; None where it is not this resource's."""
        fixed = self.uri.partition("{")[0]
        if not self.argument:
            return {} if uri == fixed else None
        given = unquote(uri.removeprefix(fixed)) if uri.startswith(fixed) else ""
        return {self.argument: given} if given else None


RESOURCES = (
    MemoryResource(
        "nous://identity",
        "identity",
        "Identity",
        "Who the agent is: the current text of each section, approved by people.",
        Operation("GET", "identity"),
    ),
    MemoryResource(
        "nous://profile",
        "profile",
        "Profile of the user",
        "What every prompt says of the user: facts, preferences and rules.",
        Operation("GET", "profile"),
    ),
    MemoryResource(
        "nous://subjects/{subject}",
        "subject",
        "Facts of a subject",
        "What is believed about a person or a thing, by any of its names.",
        Operation("GET", "facts"),
    ),
)


def resources_listed() -> list[types.Resource]:
    """The resources whose address is whole."""
    return [
        types.Resource(
            uri=resource.uri, name=resource.name, title=resource.title, description=resource.description, mime_type=JSON
        )
        for resource in RESOURCES
        if not resource.argument
    ]


def templates_listed() -> list[types.ResourceTemplate]:
    """The resources whose address leaves a name open."""
    return [
        types.ResourceTemplate(
            uri_template=resource.uri,
            name=resource.name,
            title=resource.title,
            description=resource.description,
            mime_type=JSON,
        )
        for resource in RESOURCES
        if resource.argument
    ]


def resource_read(by: Principal, uri: str) -> types.ReadResourceResult:
    """The resource at `uri` as `by` may read it. Raises ProtocolError where there is none or it is refused."""
    for resource in RESOURCES:
        arguments = resource.match(uri)
        if arguments is None:
            continue
        try:
            answer = resource.operation.call(by, arguments)
        except ValueError as error:
            raise ProtocolError(INVALID_PARAMS, str(error), {"uri": uri}) from error
        if answer.refused:
            raise ProtocolError(
                INVALID_PARAMS, f"{answer.body['title']}: {answer.body['detail']}", {"uri": uri, **answer.body}
            )
        contents = types.TextResourceContents(uri=uri, mime_type=JSON, text=to_json(answer.body).decode())
        return types.ReadResourceResult(contents=[contents])
    raise ProtocolError(INVALID_PARAMS, "There is no such resource.", {"uri": uri})


CONTEXT = types.Prompt(
    name="context",
    title="Context",
    description="The prompt to think with about an input: identity, memories that matter to it, working memory.",
    arguments=[
        types.PromptArgument(name="input", title="Input", description="What was just asked", required=True),
        types.PromptArgument(name="session_id", title="Session", description="The conversation; “mcp” by default"),
    ],
)
ASSEMBLY = Operation("POST", "context")


def prompt_filled(by: Principal, name: str, arguments: Mapping[str, str]) -> types.GetPromptResult:
    """The prompt `name` for `arguments`. Raises ProtocolError for another name, and where the context is refused."""
    if name != CONTEXT.name:
        raise ProtocolError(INVALID_PARAMS, f"There is no prompt {name[:100]!r}.")
    answer = ASSEMBLY.call(by, {"session_id": "mcp", **arguments})
    if answer.refused:
        raise ProtocolError(INVALID_PARAMS, f"{answer.body['title']}: {answer.body['detail']}", answer.body)
    content = types.TextContent(text=f"{answer.body['system_prompt']}\n\n{arguments['input']}")
    message = types.PromptMessage(role="user", content=content)
    return types.GetPromptResult(description=f"Context {answer.body['id']}", messages=[message])
