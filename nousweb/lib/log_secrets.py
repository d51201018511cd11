"""Remove secrets in addresses from log messages."""

import logging
import re
from typing import Any

_INVITATION = re.compile(r"(/invitation/)[^/\s]+")


class AddressSecretsMasked(logging.Filter):
    """Takes out of each line what would let somebody in: Django names the address of a request that it refuses."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.msg, str):
            record.msg = _masked(record.msg)
        if isinstance(record.args, tuple):
            record.args = tuple(map(_masked, record.args))
        return True


def _masked(value: Any) -> Any:
    return _INVITATION.sub(r"\1…", value) if isinstance(value, str) else value
