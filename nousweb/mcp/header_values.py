"""Values of MCP's headers: text beyond visible ASCII is sent as `=?base64?…?=`."""

import base64
import binascii

PREFIX, SUFFIX = "=?base64?", "?="


def decoded(value: str | None) -> str | None:
    """The decoded header; None if it is absent or its base64 is broken."""
    if value is None or not (value.startswith(PREFIX) and value.endswith(SUFFIX)):
        return value
    try:
        return base64.b64decode(value.removeprefix(PREFIX).removesuffix(SUFFIX), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
