"""Context over HTTP: the prompt to think with."""

from typing import Any

from django.http import HttpRequest
from ninja import Router

from context.schemas import ContextIn, ContextOut
from context.services.context import context_assemble
from identity.principal import Principal
from identity.selectors import agent_for
from nousweb.lib.schemas import Problem

router = Router(tags=["context"])

REFUSALS = {401: Problem, 403: Problem, 404: Problem, 422: Problem}


@router.post("/context", response={200: ContextOut, **REFUSALS}, summary="Assemble a prompt")
def context_post(request: HttpRequest, payload: ContextIn, agent: str = "") -> Any:
    """The prompt for `input`, its sections and the memories in them; the answer is logged under its `id`."""
    by: Principal = request.auth  # type: ignore[attr-defined]
    result = context_assemble(
        agent=agent_for(by, agent),
        session_id=payload.session_id,
        input=payload.input,
        by=by,
        request=payload.dict(),
    )
    return {
        "id": result.run_id,
        "system_prompt": result.assembly.system_prompt,
        "tokens": result.assembly.tokens,
        "sections": result.sections,
    }
