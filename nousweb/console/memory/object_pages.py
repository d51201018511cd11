"""Where the console shows each kind of memory."""

from memory.models import Censor, Decision, Episode, Event, Fact, LoopSummary, MemoryReview, Procedure, WorkingMemory
from memory.persona import VIEW_SUBCONSCIOUS
from nousweb.console.object_pages import PageOf, page_of_model

OWN = ("agent__slug", "pk")

PAGES: dict[str, PageOf] = {
    model._meta.model_name or "": page_of_model(model, name, fields, permission=VIEW_SUBCONSCIOUS)
    for model, name, fields in (
        (Fact, "agent_fact", OWN),
        (Episode, "agent_episode", OWN),
        (Decision, "agent_decision", OWN),
        (Procedure, "agent_procedure", OWN),
        (Censor, "agent_censor", OWN),
        (Event, "agent_event", OWN),
        (LoopSummary, "agent_loop", ("agent__slug", "loop_id")),
        (WorkingMemory, "agent_working", ("agent__slug",)),
        (MemoryReview, "memory_question", ("pk",)),
    )
}
