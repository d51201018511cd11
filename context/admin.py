"""The stock admin's page about the contexts sent to agents, read-only."""

from django.contrib import admin

from context.models import ContextRun
from identity.admin_readonly import ReadOnlyAdmin


@admin.register(ContextRun)
class ContextRunAdmin(ReadOnlyAdmin):
    persona_path = "persona"
    list_display = ["created_at", "agent", "persona", "session_id", "tokens", "duration_ms", "principal_name"]
    list_filter = ["persona", "agent"]
    search_fields = ["session_id", "input", "principal_name"]
    list_select_related = ["agent"]
    date_hierarchy = "created_at"
