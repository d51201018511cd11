"""Process a message of MCP: the same over HTTP and stdio, in both eras of the protocol.

Until 2025-11-25 a client introduces itself with `initialize`; since 2026-07-28 each request carries what it needs.
There is no session in either: a token identifies the caller each time.
"""

from collections.abc import Callable, Mapping
from typing import Any

import mcp_types as types
import structlog
from mcp_types.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    JSONRPCError,
    JSONRPCRequest,
    JSONRPCResponse,
)
from mcp_types.methods import parse_client_request, serialize_server_result
from mcp_types.version import (
    HANDSHAKE_PROTOCOL_VERSIONS,
    KNOWN_PROTOCOL_VERSIONS,
    LATEST_HANDSHAKE_VERSION,
    MODERN_PROTOCOL_VERSIONS,
)
from pydantic import ValidationError

from identity.principal import Principal
from nousweb import __version__
from nousweb.mcp import tools
from nousweb.mcp.errors import ProtocolError

CATALOGUE_TTL = 3_600_000
"""Milliseconds for which a client may keep the lists, which only a new release changes."""

INSTRUCTIONS = (
    "Memory of one agent. On each turn: get_context with the user's input, think with the prompt that it answers, "
    "then report_answer with your answer and log_events with what was said. Use recall to look for more, learn_fact "
    "for what should outlast this conversation. Identity can only be proposed: people decide."
)

BATCH_VERSIONS = frozenset({"2025-03-26"})
"""Versions in which several messages may come at once, in a list."""
MAX_BATCH = 50

logger = structlog.get_logger(__name__)

Params = Any
Handler = Callable[[Principal, Params], types.Result]


def _capabilities() -> types.ServerCapabilities:
    return types.ServerCapabilities(
        tools=types.ToolsCapability(), resources=types.ResourcesCapability(), prompts=types.PromptsCapability()
    )


def server_info() -> types.Implementation:
    """Name and version of this server."""
    return types.Implementation(name="nous-web", title="Nous Web", version=__version__)


def _initialize(by: Principal, params: types.InitializeRequestParams) -> types.Result:
    asked = params.protocol_version
    return types.InitializeResult(
        protocol_version=asked if asked in HANDSHAKE_PROTOCOL_VERSIONS else LATEST_HANDSHAKE_VERSION,
        capabilities=_capabilities(),
        server_info=server_info(),
        instructions=INSTRUCTIONS,
    )


def _discover(by: Principal, params: Params) -> types.Result:
    return types.DiscoverResult(
        supported_versions=list(MODERN_PROTOCOL_VERSIONS),
        capabilities=_capabilities(),
        instructions=INSTRUCTIONS,
        ttl_ms=CATALOGUE_TTL,
    )


HANDLERS: Mapping[str, Handler] = {
    "initialize": _initialize,
    "ping": lambda by, params: types.EmptyResult(),
    "server/discover": _discover,
    "tools/list": lambda by, params: types.ListToolsResult(tools=list(tools.definitions()), ttl_ms=CATALOGUE_TTL),
    "tools/call": lambda by, params: tools.tool_named(params.name).call(by, params.arguments or {}),
    "resources/list": lambda by, params: types.ListResourcesResult(
        resources=tools.resources_listed(), ttl_ms=CATALOGUE_TTL
    ),
    "resources/templates/list": lambda by, params: types.ListResourceTemplatesResult(
        resource_templates=tools.templates_listed(), ttl_ms=CATALOGUE_TTL
    ),
    "resources/read": lambda by, params: tools.resource_read(by, str(params.uri)),
    "prompts/list": lambda by, params: types.ListPromptsResult(prompts=[tools.CONTEXT], ttl_ms=CATALOGUE_TTL),
    "prompts/get": lambda by, params: tools.prompt_filled(by, params.name, params.arguments or {}),
}


def envelope(message: Any) -> JSONRPCRequest | None:
    """The request that `message` is; None for a notification, which nobody answers. Raises ProtocolError."""
    match message:
        case {"id": _}:
            pass
        case {"jsonrpc": "2.0", "method": str()}:
            return None
        case _:
            raise ProtocolError(INVALID_REQUEST, "Send one JSON-RPC request or notification.")
    try:
        return JSONRPCRequest.model_validate(message)
    except ValidationError as error:
        raise ProtocolError(INVALID_REQUEST, _first_reason(error)) from error


def answer(request: JSONRPCRequest, *, version: str, by: Principal) -> dict[str, Any]:
    """The result of `request` at the protocol version `version`, as JSON. Raises ProtocolError."""
    if version not in KNOWN_PROTOCOL_VERSIONS:
        raise ProtocolError(INVALID_REQUEST, f"There is no protocol version {version[:40]!r}.")
    handler = HANDLERS.get(request.method)
    try:
        if handler is None:
            raise KeyError(request.method)
        parsed = parse_client_request(request.method, version, request.params)
    except KeyError as error:
        raise ProtocolError(METHOD_NOT_FOUND, f"There is no method {request.method[:100]!r} here.") from error
    except ValidationError as error:
        raise ProtocolError(INVALID_PARAMS, _first_reason(error)) from error
    result = handler(by, parsed.params)
    data = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(result, types.CallToolResult) and result.structured_content is not None:
        # Operations return explicit nulls, which are kept.
        data["structuredContent"] = result.structured_content
    shaped = serialize_server_result(request.method, version, data)
    if version in MODERN_PROTOCOL_VERSIONS:
        stamp = server_info().model_dump(mode="json", by_alias=True, exclude_none=True)
        shaped["_meta"] = {**shaped.get("_meta", {}), types.SERVER_INFO_META_KEY: stamp}
    return shaped


def batch_answers(messages: list[Any], *, version: str, by: Principal) -> list[dict[str, Any]]:
    """The answers to the requests of a batch. Raises ProtocolError where a batch is not possible."""
    if version not in BATCH_VERSIONS:
        raise ProtocolError(
            INVALID_REQUEST, f"Protocol version {version[:40]} has no batches: send one message at a time."
        )
    if not 1 <= len(messages) <= MAX_BATCH:
        raise ProtocolError(INVALID_REQUEST, f"A batch holds 1 to {MAX_BATCH} messages, not {len(messages):,}.")
    return [found for message in messages if (found := _batched(message, version, by)) is not None]


def _batched(message: Any, version: str, by: Principal) -> dict[str, Any] | None:
    asked: JSONRPCRequest | None = None
    try:
        asked = envelope(message)
        if asked is None:
            return None
        if asked.method == "initialize":
            raise ProtocolError(INVALID_REQUEST, "initialize cannot be part of a batch.")
        return result_message(asked, answer(asked, version=version, by=by))
    except Exception as error:
        return error_message(asked, error)


def result_message(request: JSONRPCRequest, result: dict[str, Any]) -> dict[str, Any]:
    """`result` as the message that answers `request`."""
    return JSONRPCResponse(jsonrpc="2.0", id=request.id, result=result).model_dump(mode="json")


def error_message(request: JSONRPCRequest | None, error: Exception) -> dict[str, Any]:
    """`error` as the message that answers `request`, or one that cannot be read. A fault on our side is logged."""
    if not isinstance(error, ProtocolError):
        logger.error("mcp.unexpected_error", exc_info=error)
        error = ProtocolError(INTERNAL_ERROR, "Something went wrong on our side; the request id finds it in the log.")
    message = JSONRPCError(jsonrpc="2.0", id=request.id if request else None, error=error.error)
    body = message.model_dump(mode="json", exclude_none=True)
    return {**body, "id": message.id}


def _first_reason(error: ValidationError) -> str:
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg']}" if place else str(first["msg"])
