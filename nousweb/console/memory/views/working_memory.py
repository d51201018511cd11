"""The working memory of an agent."""

from memory.models import WorkingMemory
from memory.selectors.filters import WorkingFilter
from nousweb.console.memory.page_context import MemoryList, memory_list
from nousweb.console.memory.views.events import event_layouts

agent_working = memory_list(
    MemoryList(
        title="Working memory",
        noun="session",
        about="What the agent keeps in mind during a session.",
        empty="During a session the agent keeps its task, relevant items and open threads here. The least relevant"
        " items are removed first.",
        moment="updated_at",
        size=20,
        is_exported=False,
        tells_past=False,
        template="memory/working_memory.html",
        model=WorkingMemory,
        filter=WorkingFilter,
        more=lambda request, scope, sessions: {
            "layouts": event_layouts(request, scope, "Working memory"),
            # The names stay clear of a dict's own "items".
            "sessions": [
                (
                    session,
                    sorted(session.items, key=lambda item: -float(item.get("relevance", 0))),
                    session.open_threads,
                )
                for session in sessions
            ],
        },
    )
)
"""The working memory of the agent, session by session."""
