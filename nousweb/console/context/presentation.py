"""A prompt with all that led to it, as the console shows it: a preview, a replay and a logged run alike."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

from django.db.models import Q
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.text import Truncator

from context.engine.analysis.frames import FRAMES, Frame
from context.engine.assembly.prompt_section import MEMORY, SECTION_BREAK, SEPARATORS, line_parts, marks_around
from context.engine.context_record import REQUEST, ContextRecord
from context.feedback.content_words import content_words
from context.models import ASSEMBLE, ContextRun
from context.selectors import PromptPrefix
from context.services.agent_settings import CHANGE
from context.what_if.identity_delivery import identity_section_label
from identity.models import Agent, Persona
from identity.policy.permissions import VIEW_SUBCONSCIOUS
from identity.principal import Principal
from memory.models import MemoryReview
from memory.types import MEMORY_TYPES
from nousweb.console.common import PROMPT_SECTIONS, kind_title, stacked_bar, uuid_of
from nousweb.console.context.labels import (
    HELPS,
    SCOPES,
    VERDICTS,
    frame_words,
    intent_words,
    memory_item_url,
    period_words,
    plan_words,
    policy_words,
    stage_words,
)
from nousweb.console.context.reasons import (
    ALWAYS,
    UNSEARCHED,
    day_asked,
    distance_of,
    excluded_kinds,
    reason_of,
    short_reason,
)

Kind, Status = MemoryReview.Kind, MemoryReview.Status


def tab_of(fields: Mapping[str, Any], first: str = "memories") -> str:
    """The part of a result that the address names, or that what else it says belongs to, else the first."""
    usual = "left" if any(fields.get(name) for name in OF_LEFT_OUT) else first
    asked = str(fields.get("tab", ""))
    return asked if asked in TABS else usual


ContestedLink = dict[str, Any]
"""The review of a contested fact: its page (url), and the note at the fact (words); `open` while it is pending."""


def contested_links(record: ContextRecord, agent: Agent, by: Principal) -> dict[str, ContestedLink]:
    """By id of a fact the review that contests it: an open one before one that has been decided since, then the latest.

    One statement where something is contested and `by` may see reviews, else none.
    """
    contested = {str(item["id"]): item for item in _contested(record)}
    keys = [key for key in contested if str(uuid_of(key)) == key]
    if not keys or not by.may("memory.view_memoryreview"):
        return {}
    reviews = MemoryReview.objects.filter(
        Q(old__in=keys) | Q(new__in=keys), agent=agent, kind__in=(Kind.CONTRADICTION, Kind.DUPLICATE)
    )
    if not by.may(VIEW_SUBCONSCIOUS):
        reviews = reviews.filter(persona=Persona.ACTOR)
    links: dict[str, ContestedLink] = {}
    for review in reviews.annotate(is_open=MemoryReview.CONTESTING).order_by("created_at", "id"):
        for key, other in ((str(review.old_id), str(review.new_id)), (str(review.new_id), str(review.old_id))):
            known = links.get(key)
            if other not in contested.get(key, {}).get("contested_with", ()) or (
                known and known["open"] and not review.is_open
            ):
                continue
            words = f"contradicted, {contested[key]['contested']}" + ("" if review.is_open else ", decided since")
            url = reverse("memory_review_detail", args=[review.asked_by])
            links[key] = {"url": url, "words": words, "open": review.is_open}
    return links


def _contested(record: ContextRecord) -> Iterator[Mapping[str, Any]]:
    for section in record.sections:
        yield from (item for item in section["items"] if item.get("contested"))
    yield from (candidate for candidate in record.candidates if candidate.get("contested"))


def prefix_words(prefix: PromptPrefix, run: ContextRun, by: Principal) -> SafeString:
    """How a prompt begins like the one before it, and what ended that; with a link to the comparison of the two."""
    url = reverse("agent_context_run", args=[run.agent.slug, prefix.previous.pk])
    if by.may(ASSEMBLE):
        url = f"{reverse('agent_context_compare', args=[run.agent.slug])}?a={prefix.previous.pk}&b={run.pk}"
    part = "All of it" if prefix.ended_by is None else f"{prefix.share} %"
    words = format_html('{} equals the <a href="{}">previous prompt</a>', part, url)
    if prefix.ended_by is None:
        return words
    changes = ", ".join(kind_title(kind).lower() for kind in prefix.kinds)
    cause = changes or ("the request" if REQUEST in prefix.ended_by.changed_by else "")
    return format_html(
        "{} and can come from the model's cache; {} is the first that differs{}.",
        words,
        prefix.ended_by.label,
        f" ({cause})" if cause else "",
    )


_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_HEADING = re.compile(r"^#+ ", re.MULTILINE)
_HEADED = re.compile(r"^#.*\n", re.MULTILINE)
SEARCHED_TIER = 3
GONE = ("superseded", "retired", "expired", "not_yet_valid")
SORTS: Mapping[str, str] = {
    "verdict": "By reason",
    "score": "By score",
    "relevance": "By relevance",
    "cosine": "By meaning",
    "lexical": "By words",
    "tokens": "By tokens",
    "recent": "Most recent first",
}
NUMBERS = (
    ("relevance", "relevance", "{:.2f}", "0 to 1: how well it fits, beside all others that were found"),
    ("threshold", "needed", "{:.2f}", "the least relevance for its type"),
    ("cosine", "meaning", "{:.2f}", "how close the meanings are: related from 0.3 on, very close from 0.7"),
    ("lexical", "words", "{:.2f}", "the share of the question's rare words that it contains"),
    ("tokens", "tokens", "≈ {:,}", "its size in the prompt"),
)
"""The numbers of a candidate beside its score: the key, the label, the form and the meaning of each."""
TABS = {"memories": "Memories", "prompt": "Prompt", "left": "Left out", "why": "Why"}
"""The parts of a result, of which the page shows one at a time."""
OF_LEFT_OUT = ("verdict", "sort", "q", "page")
"""What an address says of the list of what was left out."""
ORDERS = {
    "section": lambda one: one.get("place", math.inf),
    "relevance": lambda one: -(one.get("relevance") or 0),
    "tokens": lambda one: -one.get("tokens", 0),
}
"""What the memories in a prompt can be ordered by instead of in groups: their places in it, relevance, and sizes."""
A_PAGE = 12
SECTION_HINTS = {
    "user_profile": "Facts about people, preferences and rules: in every prompt",
    "censors": "Texts that the agent must not write",
    "frame": "What kind of question it is, and so what is looked for",
    "working_memory": "What the session keeps for itself",
    "long_term": "What was said in earlier sessions, word for word",
    "short_term": "Summaries of the latest sessions like this one",
}
"""What a section contains whose name does not say it."""
COLOURS: Mapping[str, str] = {
    key: f"seg-{colour}"
    for key, colour in zip(PROMPT_SECTIONS, (1, 2, 3, 4, 14, 12, 15, 8, 11, 5, 10, 6, 13, 9, 7), strict=True)
}
"""The class of the colour of each section of a prompt, the same on all pages."""
LEFT_OUT, ALL = "left_out", "all"
"""What the candidates are filtered by beside a verdict."""
LEAST_SHARE = 0.025
"""Of the bar of sections, for a small one."""
A_TITLE, A_LINE = 80, 160
_EVENT = re.compile(r"event (\d+)")
LEFT_OUT_SHOWN = 5
"""Memories of each reason, the nearest to the prompt, that stand beside those in it."""
_SUMMARY_LABEL = re.compile(r"^Input: (?:[^\W\d][\w .-]{0,40}: )?")
VERDICT_FILTERS = {LEFT_OUT: "left out", ALL: "all", **{code: word for code, (word, _) in VERDICTS.items()}}
SEARCHED_FIELDS = ("text", "type", "label", "reason", "id", "project", "task", "user")


def piece_title(item_type: str, text: str) -> str:
    """The text of a piece of a prompt as a line of words, without the marks of a list or a heading."""
    words = line_parts(text)["text"] if item_type in MEMORY_TYPES else text
    return " ".join(part for line in words.splitlines() if (part := line.strip().lstrip("#-*> ")))


def check_view(slug: str, check: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The check of an input or an answer (`context.engine.retrieval.censors.censors_check`), with the triggers that
    block the text, those that warn, and the censors of agents that there was no time for; None without a check."""
    if not check:
        return None
    triggers: dict[str, list[dict[str, Any]]] = {"blocking": [], "warnings": [], "missed": []}
    for one in check["triggers"]:
        shown = {**one, "url": memory_item_url(slug, "censor", one["id"]), "places": len(one["spans"])}
        triggers["blocking" if one["blocks"] else "warnings" if one["matched"] else "missed"].append(shown)
    return {"verdict": str(check["verdict"]), "reason": str(check["reason"]), **triggers}


@dataclass(frozen=True)
class PromptView:
    """A record with the other values of a result's panels: addresses, words and shares."""

    slug: str
    record: ContextRecord
    contested: Mapping[str, ContestedLink] = field(default_factory=dict)
    back: str = ""
    """The query of the address of this preview, to which the pages of memories lead back."""

    def memory_url(self, item_type: str, item_id: str) -> str:
        """The page of an item, which shows what this prompt's persona remembers."""
        both = {"persona": self.record.persona} if self.record.persona == Persona.SUBCONSCIOUS else {}
        query = urlencode({**both, **({"back": self.back} if self.back else {})})
        return memory_item_url(self.slug, item_type, item_id, query)

    @property
    def share(self) -> int:
        return round(100 * self.record.tokens / self.record.budget_tokens) if self.record.budget_tokens else 0

    @cached_property
    def told(self) -> list[dict[str, Any]]:
        """The sections with tokens that add up to those of the prompt: each has those of its pieces, an identity also
        its headings, as its budget counts them; and last are the headings and line breaks of all."""
        rows = [
            {
                **row,
                "tokens": sum(piece["tokens"] for piece in row["pieces"] if row.get("key") != "identity")
                or row["tokens"],
                "is_memory": any(piece["type"] in MEMORY_TYPES for piece in row["pieces"]),
                "folds": all(piece["relevance"] == ALWAYS for piece in row["pieces"]),
            }
            for row in self.rows
        ]
        rest = {"key": "", "label": "Headings and line breaks", "at": "#part-", "css_class": "seg-rest", "pieces": ()}
        return [*rows, {**rest, "tokens": max(self.record.tokens - sum(row["tokens"] for row in rows), 0)}]

    @cached_property
    def sections(self) -> list[Any]:
        """The bar with a place for each section, wide enough to be pointed at, with its tokens and address."""
        least = LEAST_SHARE * self.record.tokens
        values = [(row["label"], row["tokens"] and max(row["tokens"], least), row["css_class"]) for row in self.told]
        bar = stacked_bar(values, width=100, height=16)
        return [(one, row["tokens"], row["at"]) for one, row in zip(bar, self.told, strict=True)]

    @property
    def budget_words(self) -> str:
        """Whose budget it is: that of the frame, where neither the request nor the agent's settings name another."""
        is_own = not self.frame or self.frame.total != self.record.budget_tokens
        whose = "its own" if is_own or not self.frame else f"the {self.frame.label}"
        return f"{'the requested' if self.record.request.get('budget') else whose} budget"

    @property
    def frame(self) -> Frame | None:
        """The kind of question, which has a budget."""
        return FRAMES.get(self.record.frame_id)

    @property
    def free(self) -> int:
        """The tokens of the budget that are not used."""
        return max(self.record.budget_tokens - self.record.tokens, 0)

    def tabs(self, memories: int) -> list[tuple[str, str, str]]:
        """The key, the label and the number of each part of the result."""
        counts = {"memories": memories, "left": self.left_out}
        return [(key, label, f"{counts[key]:,}" if key in counts else "") for key, label in TABS.items()]

    @cached_property
    def found(self) -> dict[tuple[str, str], Mapping[str, Any]]:
        """The candidates by type and id."""
        return {(one["type"], one["id"]): one for one in self.record.candidates}

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The sections with their places in the bar, and their items as they stand in the prompt. `place` says which
        project, task and user an item belongs to, `contested` where people decide about it."""
        cuts = {cut["key"]: cut for cut in self.record.truncated}
        return [
            {
                **section,
                "budget": section.get("budget", 0),
                "share": round(100 * section["tokens"] / section["budget"]) if section.get("budget") else 0,
                "left_out": cuts.get(section.get("key", ""), {}),
                "pieces": [
                    {
                        "text": item.get("text", ""),
                        "title": piece_title(item["type"], item.get("text", "")),
                        "url": self.memory_url(item["type"], item["id"]),
                        "type": item["type"],
                        "id": item["id"],
                        "tokens": item.get("tokens", 0),
                        "relevance": self._came(section, (one := self.found.get((item["type"], item["id"])))),
                        "why": f": {self.reason(one)}" if one else "",
                        "place": "".join(
                            f", {name} {item[name]}" for name in ("project", "task", "user") if item.get(name)
                        ),
                        "contested": self.contested.get(item["id"]) if item["type"] == "fact" else None,
                        "origin": item.get("source", ""),
                        "before": before,
                        "after": after,
                    }
                    for item, (before, after) in zip(
                        section["items"],
                        marks_around(
                            [item.get("source", "") for item in section["items"]],
                            SEPARATORS.get(section.get("key", ""), "\n"),
                        ),
                        strict=True,
                    )
                ],
                "at": f"#part-{section.get('key', '')}",
                "css_class": COLOURS.get(section.get("key", ""), "seg-8"),
                "hint": SECTION_HINTS.get(section.get("key", ""), ""),
                "lead": SECTION_BREAK if place else "",
                # Where it is folded, as what is in every prompt is at first.
                "begins": _HEADED.sub("", section["items"][0].get("text", "")).removeprefix("- ")[:A_LINE]
                if section["items"]
                else "",
            }
            for place, section in enumerate(self.record.sections)
        ]

    @cached_property
    def memories(self) -> list[dict[str, Any]]:
        """The memories in the prompt, the most relevant first and those that are always included last: its `place` in
        the prompt, its text, its `day` or subject (`about`) and its `mark`; its `origin` where it is neither people nor
        the agent; its section (label); if it was searched (else `always`) `why` it came, with a `note` where that is
        not all, and its relevance, 0 to 1."""
        found = [
            {
                **piece,
                **line_parts(piece["text"]),
                "origin": f"From {piece['origin']}." if piece["origin"] not in ("", MEMORY) else "",
                "origin_links": {
                    f"event {key}": (Truncator(said.get("text", key)).chars(A_TITLE), self.memory_url("event", key))
                    for key in _EVENT.findall(piece["origin"])
                    for said in [self.found.get(("event", key), {})]
                },
                **{name: row[name] for name in ("label", "hint", "css_class")},
                **_cause(self.found.get((piece["type"], piece["id"])), self.asked, self.time),
            }
            for row in self.rows
            for piece in row["pieces"]
            if piece["type"] in MEMORY_TYPES
        ]
        placed = [{**one, "place": place, "day": one.get("day") or one["when"]} for place, one in enumerate(found)]
        return sorted(placed, key=lambda one: (one["always"], -(one["relevance"] or 0)))

    def _came(self, section: Mapping[str, Any], candidate: Mapping[str, Any] | None) -> str:
        """Why an item is in a section of the prompt, in a word or two."""
        if not candidate or candidate["verdict"] != "included":
            return UNSEARCHED.get(section.get("key", ""), ALWAYS)
        return short_reason(candidate, self.asked, self.time)

    @cached_property
    def asked(self) -> frozenset[str]:
        """The words of the question."""
        return frozenset(word.text for word in content_words(self.record.request["input"]))

    @property
    def time(self) -> Mapping[str, str]:
        """The time that the question asks about, if any."""
        return (self.record.decisions.get("intent") or {}).get("time") or {}

    @property
    def time_words(self) -> str:
        """How the time was read that the question asks about; "" if it asks about none."""
        words = "“{}” is {}: what happened then comes first."
        return words.format(self.time["text"], period_words(self.time)) if self.time else ""

    @cached_property
    def other_parts(self) -> list[dict[str, Any]]:
        """What else the tokens of the prompt are: the sections that contain no memories, with the number of their
        pieces, and last the headings and line breaks of all others."""
        return [{**row, "pieces": len(row["pieces"])} for row in self.told if not row.get("is_memory")]

    @property
    def other_group(self) -> dict[str, Any]:
        """The other parts as one: a head, their names and the sum of their tokens."""
        parts = self.other_parts
        names = ", ".join(one["label"] for one in parts)
        return {
            "head": f"{len(parts)} other part{'s' * (len(parts) > 1)}",
            "about": names,
            "tokens": sum(one["tokens"] for one in parts),
        }

    @property
    def always(self) -> list[dict[str, Any]]:
        """The sections with what is in them beside the memories that were found: label, tokens, and pieces with their
        texts without the marks of a prompt, and `about` as at memories."""
        found = {(one["type"], one["id"]) for one in self.memories if not one["always"]}
        return [
            {
                **row,
                "tokens": sum(piece["tokens"] for piece in pieces) if row.get("is_memory") else row["tokens"],
                "pieces": [{**piece, **line_parts(_HEADING.sub("", piece["text"]))} for piece in pieces],
            }
            for row in self.told
            for pieces in [[piece for piece in row["pieces"] if (piece["type"], piece["id"]) not in found]]
            if pieces
        ]

    @property
    def left_out(self) -> int:
        """The number of considered memories that are not in the prompt."""
        return sum(candidate["verdict"] != "included" for candidate in self.record.candidates)

    @property
    def nearest(self) -> list[dict[str, Any]]:
        """The considered memories that are not in the prompt, of each reason the nearest to it."""
        groups = groupby(self.table(verdict=LEFT_OUT), key=itemgetter("verdict"))
        return [one for _, group in groups for one in islice(group, LEFT_OUT_SHOWN)]

    @property
    def not_sent(self) -> list[dict[str, Any]]:
        """The items that the always-on sections left out, those of an identity by name; `bounded` if the prompt had
        room, and only the section's own `budget` was used up."""
        budgets = {section["key"]: section["budget"] for section in self.record.sections}
        unused = self.record.budget_tokens - self.record.tokens
        return [
            {
                **cut,
                "budget": budgets.get(cut["key"]),
                "bounded": min((item["tokens_left_out"] for item in cut["items"]), default=0) <= unused,
                "names": [
                    (identity_section_label(item["id"]), item["tokens_left_out"], item["tokens"])
                    for item in cut["items"]
                    if item["type"] == "identity"
                ],
            }
            for cut in self.record.truncated
            if cut["tier"] < SEARCHED_TIER
        ]

    @property
    def linked(self) -> bool:
        """Whether the pieces put together are the prompt, letter for letter, so that they can stand for it."""
        return self.record.system_prompt == "".join(
            f"{row['lead']}## {row['label']}\n"
            + "".join(piece["before"] + piece["text"] + piece["after"] for piece in row["pieces"])
            for row in self.rows
        )

    @cached_property
    def input_check(self) -> dict[str, Any] | None:
        """The check of the input; None for a run from before inputs were checked."""
        return check_view(self.slug, self.record.censors.get("input"))

    @cached_property
    def answer_check(self) -> dict[str, Any] | None:
        """The check of the answer; None until one is reported."""
        return check_view(self.slug, self.record.censors.get("answer"))

    @property
    def is_clear(self) -> bool:
        """Whether all censors saw the input, and the answer if that was checked, and none was triggered."""
        checks = [self.input_check, *filter(None, [self.answer_check])]
        return all(check and check["verdict"] == "allow" and not check["missed"] for check in checks)

    @cached_property
    def words(self) -> dict[str, Any]:
        """The decisions of the engine in words."""
        decisions, fingerprint = self.record.decisions, self.record.fingerprint
        counts, shown = fingerprint.get("tier_counts") or {}, fingerprint.get("compression", 1)
        return {
            "kinds": ", ".join(fingerprint.get("kinds") or ()).replace("_", " "),
            "scopes": ", ".join(f"{counts[name]} {name}" for name in SCOPES if counts.get(name)),
            "shortened": "nothing" if shown >= 1 else f"to {shown:.0%} of the memories found",
            "frame": frame_words(decisions.get("frame") or {}),
            "complexity": "{}, {} file{}".format(
                fingerprint.get("complexity") or "–", files := fingerprint.get("file_count") or 0, "s" * (files != 1)
            ),
            "intent": " ".join(intent_words(decisions.get("intent") or {})),
            "plan": " ".join(plan_words(decisions.get("plan") or {})),
            "policy": [(label, value) for label, value in policy_words(decisions) if value != "none"],
            "stages": list(stage_words(self.record.timings)),
        }

    def table(
        self, by: Principal | None = None, *, sort: str = "verdict", verdict: str = ALL, words: str = ""
    ) -> list[dict[str, Any]]:
        """The candidates in the requested order, those that `verdict` of VERDICT_FILTERS names, and with all `words` in
        their text, type, label or reason.

        The default order has those of one verdict together, the included ones first, then the nearest to its threshold.
        """
        asked = words.casefold().split()
        found = [
            candidate
            for candidate in self.record.candidates
            if (verdict in (ALL, candidate["verdict"]) or (verdict == LEFT_OUT and candidate["verdict"] != "included"))
            and all(
                word in " ".join(str(candidate.get(name) or "") for name in SEARCHED_FIELDS).casefold()
                for word in asked
            )
        ]
        key = {"recent": "happened_at"}.get(sort, sort)
        if sort in SORTS and sort != "verdict":
            found.sort(key=lambda one: (one.get(key) is not None, one.get(key) or 0), reverse=True)
        else:
            places = {code: place for place, code in enumerate(VERDICTS)}
            found.sort(
                key=lambda one: (
                    places.get(one["verdict"], len(places)),
                    -(one.get("relevance") or 0.0) / (one.get("threshold") or 1.0),
                )
            )
        counts = {one["code"]: one["count"] for one in self.verdicts}
        excluded = (self.record.decisions.get("policy") or {}).get("excluded_kinds", ())
        pages = {"profile": reverse("context_profiles")}
        if by and by.may(CHANGE):
            settings = reverse("agent_context_settings", args=[self.slug])
            pages = {"profile": f"{settings}#general-title", "settings": f"{settings}#budgets-title"}
        helps = {code: (label, pages[page]) for code, (label, page) in HELPS.items() if page in pages}
        return [
            {
                **one,
                "word": VERDICTS.get(one["verdict"], (one["verdict"], ""))[0],
                "why": VERDICTS.get(one["verdict"], ("", ""))[1],
                "count": counts[one["verdict"]],
                "help": helps.get(one["verdict"], ("", "")),
                "title": _SUMMARY_LABEL.sub("Session: ", one["text"], count=1).strip().partition("\n")[0],
                "day": day_asked(one, self.time),
                "measure": "Kind" if (rule := excluded_kinds(one, excluded)) else "Relevance",
                "reached": (reached := rule or self.reason(one)),
                "reason": f"Too far from the question: {reached}."
                if one["verdict"] == "below_threshold"
                else one["reason"],
                "url": self.memory_url(one["type"], one["id"]),
                "day" if _DAY.fullmatch(label := one.get("label", "")) else "about": label,
                "is_usable": one["type"] in MEMORY_TYPES and one["verdict"] not in GONE,
                "contested_link": self.contested.get(one["id"]) if one["type"] == "fact" else None,
                "numbers": [
                    (label, form.format(one[key]), told)
                    for key, label, form, told in NUMBERS
                    if one.get(key) is not None
                ],
                "about_it": [
                    one["type"],
                    f"{one.get('scope', '')} {one.get('task') or ''}"
                    + (f" of project {one['project']}" if one.get("project") else ""),
                    *([f"from: {one['trust']}"] if one.get("trust", "agent") != "agent" else []),
                    *(f"{name} × {factor:.2f}" for name, factor in one.get("factors", ())),
                ],
                "successor_url": self.memory_url("fact", new) if (new := one.get("superseded_by")) else "",
            }
            for one in found
        ]

    number_helps = [(label.capitalize(), told) for _, label, _, told in NUMBERS]
    """What each number of a memory means."""

    @property
    def measured(self) -> list[dict[str, Any]]:
        """The searched memories in the prompt, with their numbers, the most relevant first."""
        return self.table(sort="relevance", verdict="included")

    def reason(self, candidate: Mapping[str, Any]) -> str:
        """What a candidate has to do with the question, in words."""
        if candidate["verdict"] == "below_threshold":
            return distance_of(candidate, self.asked)
        return reason_of(candidate, self.asked, self.time)

    def verdict_choices(self, left_out: str = LEFT_OUT) -> list[tuple[str, str]]:
        """What the list of candidates may show, with the number of each; `left_out`: the value of the first."""
        counted = [(one["code"], f"{one['word'].capitalize()} ({one['count']:,})") for one in self.verdicts]
        return [(left_out, f"Left out ({self.left_out:,})"), (ALL, "All"), *counted]

    @cached_property
    def verdicts(self) -> list[dict[str, Any]]:
        """The number of candidates by verdict."""
        counts = Counter(candidate["verdict"] for candidate in self.record.candidates)
        return [
            {"code": code, "word": word, "count": counts[code]} for code, (word, _) in VERDICTS.items() if counts[code]
        ]


def memory_groups(memories: Sequence[dict[str, Any]], order: str = "", used: str = "") -> list[dict[str, Any]]:
    """The memories of a prompt under a `head` each: those that the answer refers to (`used`, in words), those that were
    found, and those that are always included, which are folded beside others. In another order they are one group."""
    if order in ORDERS:
        return [{"memories": sorted(memories, key=ORDERS[order])}]
    groups: dict[str, list[dict[str, Any]]] = {}
    for one in memories:
        if one.get("use") and one["use"].referenced:
            head = used[:1].upper() + used[1:]
        elif one["always"]:
            head = "always included"
        elif one.get("number"):
            head = "Words in common with the answer"
        else:
            head = "Not used in the answer" if one.get("use") else "Found for this question"
        groups.setdefault(head, []).append(one)
    return [
        {
            "head": f"{len(group)} {head}" if (folds := head == "always included") else head,
            "about": ", ".join(dict.fromkeys(one["label"] for one in group)) if folds else "",
            "folds": folds,
            "is_open": len(groups) == 1,
            "tokens": sum(one.get("tokens", 0) for one in group),
            "memories": group,
        }
        for head, group in groups.items()
    ]


def _cause(candidate: Mapping[str, Any] | None, asked: Set[str], time: Mapping[str, str]) -> dict[str, Any]:
    """Why a memory is in the prompt; None: it always is. `asked` are the words of the question, and `time` is what it
    asks about, if anything."""
    if candidate is None:
        return {"note": "", "why": "", "relevance": None, "always": True, "when": ""}
    # What put it there is told in other words, and the chip of a contradicted memory says that it is.
    note = str(candidate["reason"]).partition(". ")[2].partition("Contradicted, ")[0].strip()
    return {
        "note": note,
        "why": reason_of(candidate, asked, time),
        "relevance": candidate.get("relevance"),
        "always": False,
        "when": str(candidate.get("happened_at") or "")[:10],
    }
