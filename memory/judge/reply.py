"""The base of the validated replies of a judge."""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from nousweb.lib.validation import unstorable_reason


def _stripped(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value


def _storable(text: str) -> str:
    if reason := unstorable_reason(text):
        raise ValueError(reason)
    return text


Text = Annotated[str, BeforeValidator(_stripped), AfterValidator(_storable)]
Share = Annotated[float, Field(ge=0, le=1)]


class JudgeReply(BaseModel):
    """Base of all replies. Additional fields are rejected."""

    model_config = ConfigDict(extra="forbid", frozen=True)
