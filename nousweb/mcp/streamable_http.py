"""MCP over streamable HTTP at `/mcp`: a message, or a batch of them, in; one JSON answer out."""

import base64
import binascii
from typing import Any
from urllib.parse import urlsplit

import mcp_types as types
from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse, JsonResponse
from mcp_types.jsonrpc import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    PARSE_ERROR,
    UNSUPPORTED_PROTOCOL_VERSION,
    JSONRPCRequest,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic_core import from_json

from identity.principal import acting
from nousweb.access.api_authentication import TokenAuth
from nousweb.access.oauth.views import challenge, resource_of
from nousweb.lib.problem_documents import problem
from nousweb.mcp.errors import ProtocolError
from nousweb.mcp.protocol import answer, batch_answers, envelope, error_message, result_message

PREFIX, SUFFIX = "=?base64?", "?="


def decoded(value: str | None) -> str | None:
    """The decoded header; None if it is absent or its base64 is broken."""
    if value is None or not (value.startswith(PREFIX) and value.endswith(SUFFIX)):
        return value
    try:
        return base64.b64decode(value.removeprefix(PREFIX).removesuffix(SUFFIX), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The parameter that a request of 2026-07-28 repeats in the header Mcp-Name."""


class McpTokenAuth(TokenAuth):
    channel = "mcp"

    def resource(self, request: HttpRequest) -> str:
        return resource_of(request)


authenticate = McpTokenAuth()


def message_answer(request: HttpRequest) -> HttpResponse:
    """Answer one message. Only a token says who calls: no cookie is read, so that no page can call for a person."""
    if not _same_origin(request):
        return problem(request, 403, "not_allowed", "Not allowed", "Web pages of other sites cannot call this server.")
    by = authenticate(request)
    if by is None:
        refused = problem(
            request, 401, "not_authenticated", "Not authenticated", "Send a token as “Authorization: Bearer …”."
        )
        refused["WWW-Authenticate"] = challenge(request, refused="Authorization" in request.headers)
        return refused
    asked: JSONRPCRequest | None = None
    modern = _is_modern(request)
    try:
        message = _message(request)
        if isinstance(message, list):
            with acting(by):
                answers = batch_answers(message, version=_handshake_version(request), by=by)
            return JsonResponse(answers, safe=False) if answers else HttpResponse(status=202)
        asked = envelope(message)
        if asked is None:
            return HttpResponse(status=202)
        version = _modern_version(request, asked) if modern else _handshake_version(request)
        with acting(by):
            return JsonResponse(result_message(asked, answer(asked, version=version, by=by)))
    except RequestDataTooBig:
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE or 0
        return problem(request, 413, "too_large", "Too large", f"A request body holds at most {limit:,} bytes.")
    except Exception as error:
        # Older clients read the body of an error only where the exchange itself went well.
        status = error.status if isinstance(error, ProtocolError) and (modern or asked is None) else 200
        return JsonResponse(error_message(asked, error), status=status)


def _same_origin(request: HttpRequest) -> bool:
    """Whether no browser sends this for a page of another site, which could reach servers on the same machine."""
    origin = request.headers.get("Origin")
    return origin is None or urlsplit(origin).netloc == request.get_host() or origin in settings.CSRF_TRUSTED_ORIGINS


def _message(request: HttpRequest) -> Any:
    try:
        return from_json(request.body, allow_inf_nan=False)
    except ValueError as error:
        raise ProtocolError(PARSE_ERROR, "The body is not valid JSON in UTF-8.") from error


def _is_modern(request: HttpRequest) -> bool:
    """Whether the request is of the stateless protocol; an unknown version gets a list of those there are."""
    version = request.headers.get("MCP-Protocol-Version")
    return version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS


def _handshake_version(request: HttpRequest) -> str:
    return request.headers.get("MCP-Protocol-Version", types.DEFAULT_NEGOTIATED_VERSION)


def _modern_version(request: HttpRequest, asked: JSONRPCRequest) -> str:
    """The version that body and headers agree on. Raises ProtocolError, so that nothing between is led astray."""
    stated = request.headers["MCP-Protocol-Version"]
    params = asked.params or {}
    meta = params.get("_meta")
    required = (types.PROTOCOL_VERSION_META_KEY, types.CLIENT_CAPABILITIES_META_KEY)
    if not isinstance(meta, dict) or (missing := [key for key in required if key not in meta]):
        raise ProtocolError(
            INVALID_PARAMS, f"params._meta lacks {', '.join(required if not isinstance(meta, dict) else missing)}."
        )
    if meta[types.PROTOCOL_VERSION_META_KEY] != stated:
        raise ProtocolError(HEADER_MISMATCH, "The header MCP-Protocol-Version is not the version in params._meta.")
    if request.headers.get("Mcp-Method") != asked.method:
        raise ProtocolError(HEADER_MISMATCH, "The header Mcp-Method is not the method of the body.")
    name = params.get(NAMED_BY.get(asked.method, ""))
    if isinstance(name, str) and decoded(request.headers.get("Mcp-Name")) != name:
        raise ProtocolError(HEADER_MISMATCH, f"The header Mcp-Name is not the body's {NAMED_BY[asked.method]}.")
    if stated not in MODERN_PROTOCOL_VERSIONS:
        data = types.UnsupportedProtocolVersionErrorData(supported=list(MODERN_PROTOCOL_VERSIONS), requested=stated)
        raise ProtocolError(UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version", data.model_dump(mode="json"))
    return stated
