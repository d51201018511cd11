"""Errors of the protocol, each with its code of JSON-RPC and its status of HTTP."""

from typing import Any

from mcp_types.jsonrpc import INTERNAL_ERROR, METHOD_NOT_FOUND, ErrorData

STATUSES = {INTERNAL_ERROR: 200, METHOD_NOT_FOUND: 404}
"""By code; 400 for the others."""


class ProtocolError(Exception):
    """A message that cannot be answered with a result; `status` is that of HTTP."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error = ErrorData(code=code, message=message, data=data)
        self.status = STATUSES.get(code, 400)
