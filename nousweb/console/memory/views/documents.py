"""Documents of an agent, with every version."""

import json
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from memory.models import Document
from memory.selectors.filters import DocumentFilter
from memory.services.documents import document_expiry_set, document_release, document_restore, document_retire
from nousweb.console.common import FORM, POST, Column, Title, act, author_words
from nousweb.console.memory.forms import ExpiryForm
from nousweb.console.memory.page_context import (
    MemoryList,
    PersonaScope,
    edit_page,
    memory_context,
    memory_list,
    memory_page,
)
from nousweb.lib import clock
from nousweb.lib.errors import Conflict, existing
from nousweb.lib.textdiff import TextDiff, diff_texts

VERSIONS = 20
"""Shown on the page of a document, the latest."""
SHOWN_LINES = 400
SHOWN_CHARACTERS = 20_000
COMPARED_LINES = 4_000
"""Maximum characters of a value, its text and its changes that are shown."""
CHANGES = {
    "retire": (document_retire, "Retired. The agent cannot find the document any more. Its versions are kept."),
    "restore": (document_restore, "Version {new} has the value of version {old}."),
    "release": (document_release, "The agent can change the document again."),
}
STATE_KINDS = {"active": "ok", "expired": "removed", "superseded": "neutral", "retired": "removed"}


agent_documents = memory_list(
    MemoryList(
        title="Documents",
        noun="document",
        about="Values that the agent stores under keys, with every version.",
        empty="Values that the agent stores under a key, such as a note in a file of its memory, appear here with every"
        " version.",
        model=Document,
        filter=DocumentFilter,
        row=Title(
            "key",
            lambda document: [
                *([] if document.state == "active" else [("neutral", document.state)]),
                *([("accent", "people’s")] if document.endorsed else []),
            ],
            detail="text",
        ),
        columns=(
            Column("Namespace", lambda document: " / ".join(document.namespace)),
            Column("Version", "version", "count"),
            Column("Written by", lambda row: author_words(row)),
            Column("Written", "created_at", "time", is_last=True),
        ),
    )
)
"""The documents, latest first."""


@memory_page("memory.view_document", of=Document, related=("superseded_by",), past=True)
def agent_document(request: HttpRequest, scope: PersonaScope, document: Document) -> HttpResponse:
    """One version of a document: its value, the text for search, and the changes of each version."""
    same = scope.memory.documents.filter(persona=document.persona, address=document.address)
    known = same.filter(created_at__lte=clock.now()).order_by("-version")
    latest = scope.as_then(list(known[: VERSIONS + 1]))
    text = readable_value(document.value)
    value = beginning(text)
    before = same.filter(version__lt=document.version).order_by("-version").first()
    context = memory_context(
        request,
        scope,
        document,
        value=value,
        is_cut=value != text,
        searched="" if document.text == text.strip() else beginning(document.text),
        diff=_changes(readable_value(before.value) if before else "", text),
        before=before,
        versions=[{"row": row, "name": str(row.version), "kind": STATE_KINDS[row.state]} for row in latest[:VERSIONS]],
        more=len(latest) > VERSIONS,
        last=latest[0],
        state_kind=STATE_KINDS[document.state],
        may_change=scope.by.may("memory.change_document"),
        may_retire=scope.by.may("memory.add_document"),
        may_erase=scope.by.may("memory.erase_memory"),
    )
    return render(request, "memory/document.html", context)


@memory_page("memory.view_document", "memory.add_document", of=Document, methods=POST)
def agent_document_change(request: HttpRequest, scope: PersonaScope, document: Document, change: str) -> HttpResponse:
    """Retire a document, restore one of its versions, or let the agent change a document that people decided."""
    service, done = existing(CHANGES.get(change), "Unknown action.")
    return act(
        request,
        lambda: service(document=document, by=scope.by),
        scope.url(document),
        lambda changed: done.format(new=changed.version, old=document.version),
        then=scope.url,
        refusals=(Conflict,),
    )


@memory_page("memory.view_document", "memory.add_document", of=Document, methods=FORM)
def agent_document_expiry(request: HttpRequest, scope: PersonaScope, document: Document) -> HttpResponse:
    """Move or remove the end of a document."""
    return edit_page(
        request,
        scope,
        document,
        ExpiryForm(request.POST if request.method == "POST" else None, initial={"expires_at": document.expires_at}),
        lambda fields: document_expiry_set(document=document, by=scope.by, **fields),
        title="Change its end",
        note="A later write of the agent states the end anew.",
        done="The end of the document was saved.",
    )


def beginning(text: str) -> str:
    """As much of a text as a page can hold."""
    return "\n".join(text[:SHOWN_CHARACTERS].split("\n")[:SHOWN_LINES])


def _changes(before: str, after: str) -> TextDiff:
    """What changed, wherever it stands; of very many lines only in their beginnings."""
    if max(before.count("\n"), after.count("\n")) > COMPARED_LINES:
        before, after = beginning(before), beginning(after)
    return diff_texts(before, after)


def readable_value(value: Any) -> str:
    """A value for people: the text of one that holds nothing else, or JSON over several lines."""
    if isinstance(value, dict) and len(value) == 1:
        (only,) = value.values()
        if isinstance(only, str):
            return only
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)
