"""The panel of a memory's page about prompts: its pin, and expectations of it."""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, QueryDict
from django.urls import reverse
from django.utils.http import urlencode

from context.expectations.policy import ADD
from context.models import ASSEMBLE, VIEW_RUN, ContextPin
from context.services.pins import PIN, UNPIN
from identity.principal import Principal
from memory.models import ItemType
from memory.policy import PROFILE_CATEGORIES

BACK = "back"
"""The parameter of an address that has the query of the inspector's preview from which a person came."""
MAX_BACK_CHARACTERS = 2_000
DEMANDS = (("present", "Expect in prompt"), ("absent", "Expect not in prompt"))
ONLY_ONE = ("only_of_subject", "Only fact of its subject")
"""Requirements of an expectation, with the labels of their buttons."""


@dataclass(frozen=True, slots=True)
class InPrompts:
    """Whether a memory is pinned, and what a person may do about its place in prompts. `back` is the query of the
    preview that they came from, and `question` its input; `item` is "fact <id>". `is_core`: no question needs to
    ask for it; `impact_url`: what prompts would be without it."""

    item: str
    pin: ContextPin | None
    pin_url: str
    inspector_url: str
    may_pin: bool
    may_unpin: bool
    may_expect: bool
    is_active: bool
    is_core: bool
    demands: tuple[tuple[str, str], ...]
    back: str = ""
    question: str = ""
    impact_url: str = ""


def in_prompts(request: HttpRequest, memory: Any, by: Principal) -> InPrompts | None:
    """The panel for `by`; None for what is no memory of prompts, or for people who may not see prompts."""
    noun = memory._meta.model_name
    if noun not in ItemType.values or not by.may(ASSEMBLE):
        return None
    item, slug = (noun, str(memory.pk)), memory.agent.slug
    back = request.GET.get(BACK, "")[:MAX_BACK_CHARACTERS]
    is_active = getattr(memory, "is_current", getattr(memory, "active", True)) and getattr(memory, "text", "-") != ""
    pin_url = reverse("agent_context_item", args=[slug, *item])
    return InPrompts(
        item=" ".join(item),
        pin=ContextPin.objects.filter(agent=memory.agent_id, item_type=item[0], item_id=item[1]).first(),
        pin_url=f"{pin_url}?{urlencode({BACK: back})}" if back else pin_url,
        inspector_url=f"{reverse('agent_context', args=[slug])}{'?' if back else ''}{back}",
        may_pin=is_active and by.may(PIN),
        may_unpin=by.may(UNPIN),
        may_expect=by.may(ADD),
        is_active=is_active,
        is_core=getattr(memory, "category", "") in PROFILE_CATEGORIES and noun == ItemType.FACT,
        demands=(*DEMANDS, ONLY_ONE) if getattr(memory, "subject", "") else DEMANDS,
        back=back,
        question=QueryDict(back).get("input", "") or "",
        impact_url=f"{reverse('agent_context_blast', args=[slug])}?fact={memory.pk}"
        if noun == ItemType.FACT and is_active and by.may(VIEW_RUN)
        else "",
    )
