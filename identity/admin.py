"""The stock admin, for operators who look things up. It changes nothing: every change goes through a service."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from identity.admin_readonly import ReadOnlyAdmin
from identity.models import Agent, ApiToken, AuditEvent, ChangeProposal, IdentityVersion
from identity.principal import Principal


@admin.register(Agent)
class AgentAdmin(ReadOnlyAdmin):
    list_display = ["slug", "name", "kind", "initiated_at", "created_at"]
    list_filter = ["kind"]
    search_fields = ["slug", "name"]


@admin.register(IdentityVersion)
class IdentityVersionAdmin(ReadOnlyAdmin):
    list_display = ["agent", "section", "version", "is_current", "author_name", "created_at"]
    list_filter = ["section", "is_current", "author_kind", "agent"]
    search_fields = ["content", "reason", "author_name"]
    list_select_related = ["agent"]
    raw_id_fields = ["previous", "restores"]


@admin.register(ChangeProposal)
class ChangeProposalAdmin(ReadOnlyAdmin):
    persona_path = "persona"
    list_display = ["agent", "section", "status", "risk", "author_name", "reviewer_name", "created_at"]
    list_filter = ["status", "risk", "section", "agent"]
    search_fields = ["content", "reason", "comment", "author_name", "reviewer_name"]
    list_select_related = ["agent"]


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    """Tokens are made and revoked in the console, which shows a secret once and leaves an audit record."""

    persona_path = "persona"
    exclude = ["digest", "former_digest"]
    list_display = ["name", "prefix", "agent", "persona", "state", "created_by", "last_used_at", "expires_at"]
    list_filter = ["persona", "agent"]
    search_fields = ["name", "prefix", "created_by"]
    list_select_related = ["agent"]


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin):
    persona_path = "persona"
    list_display = ["at", "author_name", "author_kind", "action", "object_label", "agent_slug", "request_id"]
    list_filter = ["action", "author_kind", "object_type"]
    search_fields = ["object_label", "message", "author_name", "request_id", "object_id"]
    date_hierarchy = "at"

    def get_exclude(self, request: HttpRequest, obj: AuditEvent | None = None) -> list[str]:
        person: Any = request.user
        return [] if obj is None or obj.shows_states(Principal.of_user(person)) else ["before", "after"]
