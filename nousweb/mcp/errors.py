"""Errors of the protocol, each with its code of JSON-RPC and its status of HTTP."""

from typing import Any, ClassVar

from mcp_types.jsonrpc import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    UNSUPPORTED_PROTOCOL_VERSION,
    ErrorData,
)


class ProtocolError(Exception):
    """A message that cannot be answered with a result; `status` is that of HTTP."""

    code: ClassVar[int] = INTERNAL_ERROR
    status: ClassVar[int] = 200

    def __init__(self, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error = ErrorData(code=self.code, message=message, data=data)


class NotJson(ProtocolError):
    code = PARSE_ERROR
    status = 400


class InvalidRequest(ProtocolError):
    code = INVALID_REQUEST
    status = 400


class InvalidParams(ProtocolError):
    code = INVALID_PARAMS
    status = 400


class MethodNotFound(ProtocolError):
    code = METHOD_NOT_FOUND
    status = 404


class HeaderMismatch(ProtocolError):
    code = HEADER_MISMATCH
    status = 400


class UnsupportedVersion(ProtocolError):
    code = UNSUPPORTED_PROTOCOL_VERSION
    status = 400
