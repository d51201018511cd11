"""The columns of memory's lists as files; those of the types of memory are the columns of their tables."""

from django.http import HttpRequest, HttpResponseBase

from memory.models import Censor, LoopSummary
from memory.selectors.filters import MemoryFilter
from nousweb.console.common.list_export import ListExport, export_format, keyset_rows, list_export, model_columns
from nousweb.console.common.memory_types import TYPE_PAGES
from nousweb.console.memory.persona_scope import PersonaScope

TYPE_EXPORTS = {key: ListExport(one.label, model_columns(one.model)) for key, one in TYPE_PAGES.items()}
"""By type of memory."""
LOOPS = ListExport("Loops", model_columns(LoopSummary, "long_term_ids"))
CENSORS = ListExport("Censors", model_columns(Censor))
SUBJECTS = ListExport(
    "Subjects",
    (
        "id",
        "persona",
        "name",
        "kind",
        "is_user",
        ("names", lambda subject: [alias.spelling for alias in subject.aliases.all()]),
        "facts",
        "created_at",
    ),
)


def memory_export(
    request: HttpRequest, scope: PersonaScope, found: MemoryFilter, export: ListExport, moment: str
) -> HttpResponseBase | None:
    """The rows of a filter as a file, latest first by `moment`; None if the page is requested, or must show an invalid
    filter."""
    if not export_format(request) or not found.form.is_valid():
        return None
    # Pages leave out columns that they do not show.
    rows = found.results.defer(None)
    return list_export(request, export, keyset_rows(rows, moment), agent=scope.agent, both=scope.both)
