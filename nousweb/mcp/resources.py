"""The resources that a client can read without calling a tool, and the prompt."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

import mcp_types as types
from mcp_types.jsonrpc import INVALID_PARAMS
from pydantic_core import to_json

from identity.principal import Principal
from nousweb.mcp.errors import ProtocolError
from nousweb.mcp.operations import Operation

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


def listed() -> list[types.Resource]:
    """The resources whose address is whole."""
    return [
        types.Resource(
            uri=resource.uri, name=resource.name, title=resource.title, description=resource.description, mime_type=JSON
        )
        for resource in RESOURCES
        if not resource.argument
    ]


def listed_templates() -> list[types.ResourceTemplate]:
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


def read(by: Principal, uri: str) -> types.ReadResourceResult:
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
