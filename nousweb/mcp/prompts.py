"""The prompt: the context for an input, as the first message of a conversation."""

from collections.abc import Mapping

import mcp_types as types

from identity.principal import Principal
from nousweb.mcp.errors import InvalidParams
from nousweb.mcp.operations import Operation

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


def filled_in(by: Principal, name: str, arguments: Mapping[str, str]) -> types.GetPromptResult:
    """The prompt `name` for `arguments`. Raises InvalidParams for another name, and where the context is refused."""
    if name != CONTEXT.name:
        raise InvalidParams(f"There is no prompt {name[:100]!r}.")
    answer = ASSEMBLY.call(by, {"session_id": "mcp", **arguments})
    if answer.refused:
        raise InvalidParams(f"{answer.body['title']}: {answer.body['detail']}", answer.body)
    text = f"{answer.body['system_prompt']}\n\n{arguments['input']}"
    message = types.PromptMessage(role="user", content=types.TextContent(text=text))
    return types.GetPromptResult(description=f"Context {answer.body['id']}", messages=[message])
