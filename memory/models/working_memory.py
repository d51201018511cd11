"""Working memory: the items of one session."""

from django.db import models
from django.urls import reverse

from identity.models import Agent, AgentRow, Persona
from memory.models.base import user_key_field, whose_words
from nousweb.lib import clock
from nousweb.lib.bounds import MAX_KEY_CHARACTERS


class WorkingMemory(AgentRow):
    """One session's task, frame, items in mind and open threads.

    `items` holds {"id", "type", "text", "relevance", "added_at"}; the least relevant leave when `capacity` is
    passed. `open_threads` holds {"id", "text", "added_at"}. `project`, `task_key` and `user` are the keys of what the
    session works on and for whom; `task` says it in words. A token limited to projects knows nothing of other projects'
    sessions, so it may have one of the same name, and so may each user.
    """

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="working_memories")
    persona = models.CharField(max_length=20, choices=Persona)
    session_id = models.CharField(max_length=200)
    task = models.TextField(blank=True)
    project = models.CharField(max_length=MAX_KEY_CHARACTERS, blank=True, default="", db_default="")
    task_key = models.CharField(max_length=MAX_KEY_CHARACTERS, blank=True, default="", db_default="")
    user = user_key_field()
    frame = models.CharField(max_length=30, blank=True)
    items = models.JSONField(default=list)
    open_threads = models.JSONField(default=list)
    # Held back until a person has read it: entries as of `items`, each with its `part`, "item", "thread" or "task".
    quarantined_entries = models.JSONField(default=list, db_default=models.Value([], models.JSONField()))
    capacity = models.PositiveSmallIntegerField(default=20)
    created_at = models.DateTimeField(default=clock.now, editable=False)
    updated_at = models.DateTimeField(default=clock.now)

    class Meta:
        ordering = ["-updated_at", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "persona", "session_id", "project", "user"], name="one_working_memory_per_session"
            )
        ]

    def __str__(self) -> str:
        return f"Session {self.session_id}"

    @property
    def whose(self) -> str:
        """Whose it is, for people; "" for everybody's."""
        return whose_words(self.user)

    def get_absolute_url(self) -> str:
        return reverse("agent_working", args=[self.agent.slug])
