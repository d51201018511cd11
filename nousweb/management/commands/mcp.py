"""MCP over standard input and output, for an agent on this machine: one JSON-RPC message a line."""

import os
import sys
import uuid
from collections.abc import Iterable
from contextlib import redirect_stdout
from typing import Any

import mcp_types as types
from django.core.management.base import BaseCommand, CommandError
from django.db import close_old_connections
from mcp_types.jsonrpc import INTERNAL_ERROR, PARSE_ERROR, UNSUPPORTED_PROTOCOL_VERSION
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic_core import from_json, to_json

from identity.principal import Principal, acting
from identity.services.tokens import token_authenticate
from nousweb.lib.errors import existing
from nousweb.mcp.errors import ProtocolError
from nousweb.mcp.protocol import answer, batch_answers, envelope, error_message, result_message

TOKEN_VARIABLE = "NOUS_TOKEN"  # noqa: S105


class Command(BaseCommand):
    help = f"Serve MCP over standard input and output, as the agent whose token is in {TOKEN_VARIABLE}."

    def handle(self, *args: Any, **options: Any) -> None:
        self.secret = os.environ.get(TOKEN_VARIABLE, "")
        self.version = types.DEFAULT_NEGOTIATED_VERSION
        try:
            self._caller()
        except ProtocolError as error:
            raise CommandError(f"{error.error.message} Put an agent's token into {TOKEN_VARIABLE}.") from error
        answers = sys.stdout
        # Whatever else is printed must not come between the messages.
        with redirect_stdout(sys.stderr):
            for message in self._answers(sys.stdin.buffer):
                answers.write(to_json(message).decode() + "\n")
                answers.flush()

    def _answers(self, lines: Iterable[bytes]) -> Iterable[Any]:
        for line in lines:
            if line.strip():
                close_old_connections()
                found = self._answer(line)
                if found is not None:
                    yield found

    def _answer(self, line: bytes) -> dict[str, Any] | list[dict[str, Any]] | None:
        asked = None
        try:
            try:
                message = from_json(line, allow_inf_nan=False)
            except ValueError as error:
                raise ProtocolError(PARSE_ERROR, "The line is not valid JSON in UTF-8.") from error
            if isinstance(message, list):
                by = self._caller()
                with acting(by):
                    return batch_answers(message, version=self.version, by=by) or None
            asked = envelope(message)
            if asked is None:
                return None
            by = self._caller()
            with acting(by):
                result = answer(asked, version=self._version_of(asked.params or {}), by=by)
            if asked.method == "initialize":
                self.version = result["protocolVersion"]
            return result_message(asked, result)
        except Exception as error:
            return error_message(asked, error)

    def _version_of(self, params: dict[str, Any]) -> str:
        """The version that the request itself states, or else the one that `initialize` agreed on."""
        meta = params.get("_meta")
        stated = meta.get(types.PROTOCOL_VERSION_META_KEY) if isinstance(meta, dict) else None
        if stated is None:
            return self.version
        if stated not in MODERN_PROTOCOL_VERSIONS:
            data = {"supported": list(MODERN_PROTOCOL_VERSIONS), "requested": stated}
            raise ProtocolError(UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version", data)
        return str(stated)

    def _caller(self) -> Principal:
        """The token's principal, looked up each time, so that a revoked token ends access."""
        found = existing(
            token_authenticate(self.secret) if self.secret else None,
            ProtocolError(INTERNAL_ERROR, "There is no valid token."),
        )
        return Principal.of_token(found, request_id=uuid.uuid4().hex, channel="mcp")
