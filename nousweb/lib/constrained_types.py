"""Types with bounds, which the OpenAPI document shows and the API enforces. Services check the same bounds again for
every other interface."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field, GetCoreSchemaHandler, StringConstraints, WithJsonSchema
from pydantic_core import CoreSchema, core_schema

from nousweb.lib.bounds import MAX_CURSOR_CHARACTERS, MAX_KEY_CHARACTERS, MAX_PAGE, WORD, composed, key_text, user_text


class OneOf:
    """Annotates text that is one of `choices`, such as the values of a model's field."""

    def __init__(self, *choices: str) -> None:
        self.choices = choices

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.literal_schema([*self.choices])


def text(limit: int, *, min_length: int = 0) -> StringConstraints:
    """Annotates text of `min_length` to `limit` characters, counted without white space at its ends."""
    return StringConstraints(strip_whitespace=True, min_length=min_length or None, max_length=limit)


def entry(limit: int) -> WithJsonSchema:
    """Annotates the texts of a list, 1 to `limit` characters each. The service enforces it: its refusal names the
    list, and not a place in it."""
    return WithJsonSchema({"type": "string", "minLength": 1, "maxLength": limit})


def _word(value: str) -> str:
    if not WORD.fullmatch(value):
        raise ValueError(f"A lower-case word of 1 to 50 letters, digits, - or _, not {value[:60]!r}.")
    return value


UnitInterval = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Word = Annotated[str, AfterValidator(_word), WithJsonSchema({"type": "string", "pattern": f"^{WORD.pattern}$"})]
OptionalWord = Annotated[
    str,
    AfterValidator(lambda value: value and _word(value)),
    WithJsonSchema({"type": "string", "pattern": f"^({WORD.pattern})?$"}),
]
Composed = Annotated[str, AfterValidator(composed)]
ProjectKey = Annotated[
    str,
    AfterValidator(key_text),
    WithJsonSchema({"type": "string", "maxLength": MAX_KEY_CHARACTERS}),
    Field(description="Your key of the project; empty for none"),
]
TaskKey = Annotated[
    str,
    AfterValidator(key_text),
    WithJsonSchema({"type": "string", "maxLength": MAX_KEY_CHARACTERS}),
    Field(description="Your key of the task, which belongs to the project or stands alone; empty for none"),
]
_USER_SCHEMA = WithJsonSchema({"type": "string", "maxLength": MAX_KEY_CHARACTERS})
UserKey = Annotated[
    str,
    AfterValidator(user_text),
    _USER_SCHEMA,
    Field(description='Your key of the user whose memory it is; "*" for everybody. Without it, the token\'s user'),
]
ReadingUser = Annotated[
    str,
    AfterValidator(user_text),
    _USER_SCHEMA,
    Field(description="Your key of the user: that memory is included, and no other user's. Without it, the token's"),
]
AnyUser = Annotated[str, AfterValidator(user_text), _USER_SCHEMA, Field(description="Only those of this user")]
AnyProject = Annotated[ProjectKey, Field(description="Only those of this project")]
AnyTask = Annotated[TaskKey, Field(description="Only those of tasks of this key")]

AgentSlug = Annotated[str, Field(description="The agent's slug; a token's own agent when it is left out")]
PageLimit = Annotated[int, Field(ge=1, le=MAX_PAGE, description="Most entries of a page")]
PageCursor = Annotated[
    str, Field(max_length=MAX_CURSOR_CHARACTERS, description="`next` of the page before; the first page without it")
]
NextCursor = Annotated[str | None, Field(description="Pass as `cursor` for the next page; null on the last")]
