"""The stock admin's pages about memory, read-only."""

from django.contrib import admin

from identity.admin_readonly import ReadOnlyAdmin
from memory.models import Fact, FactChange


@admin.register(Fact)
class FactAdmin(ReadOnlyAdmin):
    persona_path = "persona"
    list_display = ["__str__", "agent", "persona", "category", "subject", "confidence", "active", "recorded_at"]
    list_filter = ["active", "persona", "category", "scope", "agent"]
    search_fields = ["content", "subject"]
    list_select_related = ["agent"]


@admin.register(FactChange)
class FactChangeAdmin(ReadOnlyAdmin):
    persona_path = "fact__persona"
    list_display = ["at", "action", "fact", "author_name", "score", "reason"]
    list_filter = ["action", "author_kind"]
    search_fields = ["reason", "author_name", "fact__content"]
    list_select_related = ["fact"]
