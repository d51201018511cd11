"""What differs in the prompt for a question since it was sent: by section, with the causes that both records tell."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from context.engine.context_record import OWN_WORDS
from nousweb.console.context.labels import SECTION_PAGES, VERDICTS, period_words
from nousweb.console.context.presentation import PromptView

CHANGES_SHOWN = 4
"""Of a section."""


def since_then(then: PromptView, now: PromptView, at: datetime) -> list[dict[str, Any]]:
    """The sections that differ between the prompt that was sent `at` a time and the one now, with their tokens in both,
    and the first of what came (+), went (−) or reads otherwise (~): words, the page and the reason."""
    sessions = {view.record.request["session_id"] for view in (then, now)}
    # What repeats the request, or is of a session that only one of them has, no time has changed.
    ignored = {*OWN_WORDS, "frame", *(SECTION_PAGES if len(sessions) > 1 else ())}
    sections = [{row["label"]: row for row in view.told if row["key"]} for view in (then, now)]
    rows = []
    for label in dict.fromkeys([*sections[0], *sections[1]]):
        was, present = (side.get(label, {"tokens": 0, "pieces": (), "budget": 0}) for side in sections)
        before, after = (
            {(one["type"], one["id"]): one for one in side["pieces"] if one["type"] not in ignored}
            for side in (was, present)
        )
        changes = [
            *(("+", one, _came(key, one, then, now, at)) for key, one in after.items() if key not in before),
            *(("−", one, _went(key, then, now)) for key, one in before.items() if key not in after),
            *(
                ("~", one, (one["contested"] or {"words": "reads otherwise"})["words"])
                for key, one in after.items()
                if key in before and before[key]["text"] != one["text"]
            ),
        ]
        if changes:
            told = [(f"{sign} {one['title']}", one["url"], why) for sign, one, why in changes[:CHANGES_SHOWN]]
            told += [(f"{more} more", "", "")] if (more := len(changes) - CHANGES_SHOWN) > 0 else []
            rows.append({**was, **present, "then": was["tokens"], "label": label, "changes": told})
    return rows


def causes(then: PromptView, now: PromptView) -> list[str]:
    """Why both prompts may differ as a whole: another meaning of a time, another profile, other budgets."""
    told = []
    if then.time and now.time and (was := period_words(then.time)) != (means := period_words(now.time)):
        told.append(f"“{now.time['text']}” means {means} now, {was} then")
    profiles = [
        f"profile {one.get('id', '–')} version {one.get('version', '–')}"
        for view in (then, now)
        for one in [view.record.decisions.get("profile") or {}]
    ]
    if profiles[0] != profiles[1]:
        told.append(f"{profiles[1]} now, {profiles[0]} then")
    budgets = [{row["label"]: row["budget"] for row in view.rows} for view in (then, now)]
    told += [
        f"the budget of {label} is {budget:,} now, {budgets[0][label]:,} then"
        for label, budget in budgets[1].items()
        if budgets[0].get(label, budget) != budget
    ]
    return told


def _came(key: tuple[str, str], piece: Mapping[str, Any], then: PromptView, now: PromptView, at: datetime) -> str:
    if key[0] == "identity":
        return f"version {key[1].rpartition(':')[2]}"
    found = now.found.get(key, {})
    written = str(found.get("found_at") or found.get("happened_at") or "")
    if written and datetime.fromisoformat(written) > at:
        return "new since then"
    if key in then.found:
        return f"then {_word(then.found[key])}"
    return now.reason(found) if found.get("verdict") == "included" else str(piece["relevance"])


def _went(key: tuple[str, str], then: PromptView, now: PromptView) -> str:
    if key[0] == "identity":
        return "the version then"
    if now.time and now.time != then.time:
        return f"not of “{now.time['text']}”"
    return f"now {_word(now.found[key])}" if key in now.found else "not found now"


def _word(candidate: Mapping[str, Any]) -> str:
    return VERDICTS.get(candidate["verdict"], (candidate["verdict"], ""))[0]
