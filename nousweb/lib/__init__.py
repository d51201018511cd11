"""Small pure helpers, without models. Refusals, and checks that raise them, are imported from here.

They are loaded when they are first asked for, since processes that never refuse anything import other helpers.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nousweb.lib.errors import (
        Conflict,
        DomainError,
        Invalid,
        NotAllowed,
        NotFound,
        StaleEdit,
        TooMany,
        Unavailable,
        existing,
    )
    from nousweb.lib.validation import (
        choice_check,
        depth_check,
        first_unstorable,
        is_blank,
        json_check,
        length_check,
        moment_check,
        name_check,
        past_check,
        storable_check,
        tags_check,
        text_check,
        texts_check,
        unapprovable_reason,
        unit_check,
        unstorable_reason,
        visible_text_check,
        whole_check,
        word_check,
    )

__all__ = [
    "Conflict",
    "DomainError",
    "Invalid",
    "NotAllowed",
    "NotFound",
    "StaleEdit",
    "TooMany",
    "Unavailable",
    "choice_check",
    "depth_check",
    "existing",
    "first_unstorable",
    "is_blank",
    "json_check",
    "length_check",
    "moment_check",
    "name_check",
    "past_check",
    "storable_check",
    "tags_check",
    "text_check",
    "texts_check",
    "unapprovable_reason",
    "unit_check",
    "unstorable_reason",
    "visible_text_check",
    "whole_check",
    "word_check",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "errors" if hasattr(import_module(f"{__name__}.errors"), name) else "validation"
    return getattr(import_module(f"{__name__}.{home}"), name)
