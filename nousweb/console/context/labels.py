"""Decisions of the engine in words for people, from their logged form."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from django.urls import NoReverseMatch, reverse

from identity.policy.sections import Section
from memory.search.input_kinds import KINDS
from memory.search.request import Period
from nousweb.console.common import TYPE_PAGES
from nousweb.console.context.profile_settings import SETTINGS, setting_words

PAGES = {**{key: one.page for key, one in TYPE_PAGES.items()}, "censor": "agent_censor", "loop": "agent_loop"}
"""URL name of the page of each type of item, by agent and id."""
SECTION_PAGES = {"task": "agent_working", "working": "agent_working", "thread": "agent_working"}
"""URL name of the page on which such an item stands among others, by agent."""


def memory_item_url(slug: str, item_type: str, item_id: str, query: str = "") -> str:
    """The page of an item of a prompt, that of a memory with `query`; "" where it has none."""
    section = item_id.split(":", 1)[0]
    with suppress(NoReverseMatch):
        if item_type in PAGES:
            return reverse(PAGES[item_type], args=[slug, item_id]) + (f"?{query}" if query else "")
        if item_type in SECTION_PAGES:
            return reverse(SECTION_PAGES[item_type], args=[slug])
        if item_type == "identity" and section in Section.values:
            return reverse("section_history", args=[slug, section])
    return ""


VERDICTS: Mapping[str, tuple[str, str]] = {
    "included": ("included", ""),
    "over_budget": ("no room", "Better ones had used up the budget."),
    "over_limit": ("enough others of its type", "Better ones had the places that the plan gives their type."),
    "duplicate_message": ("already in the conversation", "The conversation says the same."),
    "duplicate_input": ("already in the input", "The question says the same."),
    "duplicate_item": ("the same as another", "Another memory in the prompt says the same."),
    "invalidated": ("marked as wrong", "They were never true."),
    "contested": ("contradicted", "The profile prefers the facts that contradict them."),
    "low_importance": ("not important enough", "The profile asks for more important ones."),
    "excluded_kind": ("of a kind that is switched off", "The profile, the rules of what prompts hold, excludes it."),
    "low_trust": ("not trusted", "The profile asks for more trusted sources."),
    "quarantined": ("quarantined", "They read like an instruction or a secret."),
    "not_planned": ("type not searched", "The plan for this question does not search their type."),
    "superseded": ("replaced", "Newer facts took their place."),
    "retired": ("retired", "Somebody retired them."),
    "expired": ("expired", "Their time is over."),
    "not_yet_valid": ("not yet valid", "Their time had not come."),
    "other_project": ("of another project", "They belong to another project than the question."),
    "below_threshold": (
        "too far from the question",
        "They have too little in common with it; one that you pin on its page is included all the same.",
    ),
}
"""Word, and the reason of all that have it, by verdict, in the order of the page."""

HELPS: Mapping[str, tuple[str, str]] = {
    "over_budget": ("Raise a budget", "settings"),
    "low_importance": ("Use another profile", "profile"),
    "excluded_kind": ("Use another profile", "profile"),
    "low_trust": ("Use another profile", "profile"),
    "contested": ("Use another profile", "profile"),
}
"""What would include all that were left out for one reason: the words and the page of a link, by verdict."""
SCOPES = ("task", "project", "global")
"""In the order of the page; JSON of the log does not keep one."""
STAGES: Mapping[str, str] = {
    "plan": "Plan",
    "sections": "Fixed sections",
    "search": "Search",
    "search.embedding": "· embedding",
    "search.words": "· words",
    "search.counts": "· counts of words",
    "search.candidates": "· candidates",
    "search.scoring": "· scores",
    "search.loading": "· texts",
    "search.past": "· as of",
    "contested": "Contradicted facts",
    "explain": "Explanation",
    "assembly": "Assembly",
    "censors": "Censors",
}
"""Labels of the stages, by their logged names, in the order of the page; “·” marks a part."""


def stage_words(timings: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """The stages of a context with their milliseconds."""
    yield from ((word, timings[name]) for name, word in STAGES.items() if name in timings)
    yield from ((name, spent) for name, spent in timings.items() if name not in STAGES)


def frame_words(frame: Mapping[str, Any]) -> str:
    """Why it is this kind of question (frame)."""
    label = frame.get("label") or frame.get("id") or "Unknown"
    if frame.get("forced"):
        return f"{label}, because the request names it."
    if frame.get("source") == "session":
        return f"{label}, because the session's working memory names it."
    hits = frame.get("hits") or []
    if not hits:
        return f"{label}, since no other kind fits, so no section is closed."
    said = ", ".join(f"“{hit}”" for hit in hits)
    return f"{label}, because of {said}; {frame.get('confidence', 0):.0%} sure."


def period_words(time: Mapping[str, Any]) -> str:
    """A period that is asked about: its first and last day in the user's time, or its hours within a day."""
    start, end = (datetime.fromisoformat(time[name]) if time.get(name) else None for name in ("start", "end"))
    return str(Period(time["text"], start, end))


def intent_words(intent: Mapping[str, Any]) -> Iterator[str]:
    """The detected intent of the input, a sentence each."""
    if intent.get("is_greeting"):
        yield "A greeting or thanks only: nothing is looked for."
    elif kind := KINDS.get(intent.get("kind", "")):
        yield kind.sentence
    elif intent.get("is_question"):
        yield "A question."
    else:
        yield "A statement or a task, not a question."
    for memory_type, weight in (intent.get("hints") or {}).items():
        yield f"Its words hint at {memory_type}s (weight {weight:g})."
    if time := intent.get("time"):
        yield f"Time: {period_words(time)}, from “{time.get('text')}”."
    elif recency := intent.get("recency"):
        yield f"It refers to time: recency counts for {recency:.0%} of the order."
    if entities := intent.get("entities"):
        yield f"It names {', '.join(entities)}."
    if keywords := intent.get("topic_keywords"):
        yield f"Its topic: {', '.join(keywords)}."


def plan_words(plan: Mapping[str, Any]) -> Iterator[str]:
    """The resulting plan, a sentence each."""
    if reason := plan.get("reason"):
        yield str(reason)
    limits = plan.get("limits") or {}
    if limits:
        most = (f"{limit} {name}{'' if limit == 1 else 's'}" for name, limit in limits.items())
        yield f"At most {', '.join(most)}."
    else:
        yield "Nothing was searched."
    if skipped := plan.get("skip_types"):
        yield f"Left out: {', '.join(f'{name}s' for name in skipped)}."
    if overrides := plan.get("budget_overrides"):
        yield "Budgets changed: " + ", ".join(f"{name} {tokens:,}" for name, tokens in overrides.items()) + " tokens."


def policy_words(decisions: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Profile and policy as label and value."""
    profile, policy = decisions.get("profile") or {}, decisions.get("policy") or {}
    yield "Profile", f"{profile.get('id', '–')}, version {profile.get('version', '–')}"
    if override := profile.get("override"):
        said = (f"{SETTINGS[name].label.lower()} {setting_words(value)}" for name, value in override.items())
        yield "Overridden for this call", "; ".join(said)
    for name in ("project", "task", "user", "mode"):
        yield name.capitalize(), str(policy.get(name) or "none")
    if weights := policy.get("weights"):
        yield "Shares", ", ".join(f"{name} {weights[name]:.0%}" for name in SCOPES if name in weights)
    for label, name in (
        ("Preferred kinds", "preferred_kinds"),
        ("Excluded kinds", "excluded_kinds"),
        ("Minimum trust", "least_trust"),
        ("Files", "files"),
        ("Tags", "tags"),
    ):
        yield label, ", ".join(policy.get(name) or []).replace("_", " ") or "none"
    if (decisions.get("budget") or {}).get("fill"):
        yield "Thresholds", "lowered in proportion to the budget, since the request asks to fill it"
    yield "Minimum importance", f"{policy.get('min_importance', 0):.2f}"
    compression = policy.get("compression") or 0
    yield "Compression", f"up to {compression:.0%} of an item may be cut" if compression else "none"
