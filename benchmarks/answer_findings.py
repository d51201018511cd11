"""Findings of answers against the memories of their prompts: python -m benchmarks.answer_findings [FILE [FOLDER]]

On LoCoMo: the observations of a session are the memories, alone and with 30 of other sessions. On BEAM: what was said
before in the chat, the nearest by words: ten messages, or twenty sentences of the person, or of both.

- false alarms: share of true answers, the summaries of the sessions and the assistant's messages, of which a page says
  that a memory says otherwise.
- found: share of answers of one sentence, an observation with another number, or denied, or with the names of both
  speakers swapped, of which it does.
"""

import json
import os
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import django

from benchmarks import beam
from benchmarks.locomo import DEFAULT_FILE
from memory.comparison.lexicon import NUMBER_WORDS

OTHERS = 30
NUMBER = re.compile(rf"\d+|\b(?:{'|'.join(NUMBER_WORDS.keys() - {'one'})})\b")
MESSAGES, SENTENCES, SENTENCE_CHARACTERS = 10, 20, range(26, 241)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


def spoilt(text: str, speakers: tuple[str, str]) -> Iterator[tuple[str, str]]:
    """A text that says otherwise, by what was done to it."""
    if NUMBER.search(text):
        yield "number", NUMBER.sub(lambda found: str(int(NUMBER_WORDS.get(found[0], found[0])) + 3), text, count=1)
    if re.search(r" (is|was|has|will) ", text):
        yield "denied", re.sub(r" (is|was|has|will) ", r" \1 not ", text, count=1)
    mine = next((one for one in speakers if text.startswith(f"{one} ")), "")
    if mine and speakers[mine == speakers[0]] not in text:
        yield "name", text.replace(mine, speakers[mine == speakers[0]])


def chat_answers(chat: Path) -> Iterator[tuple[str, str, list[str]]]:
    """What the assistant of a chat said, with the memories of each kind."""
    from context.feedback.content_words import content_words

    def words(text: str) -> set[str]:
        return {word.text for word in content_words(text)}

    kinds: dict[str, list[tuple[str, set[str]]]] = {
        "messages": [],
        "sentences of the person": [],
        "sentences of both": [],
    }
    for message in beam.messages_of(chat, loops=False):
        text, is_answer = message["content"], message["kind"] == beam.KINDS["assistant"]
        said = words(text)
        for kind, known in kinds.items() if is_answer else ():
            nearest = sorted(known, key=lambda one: -len(said & one[1]) / (len(one[1]) + 5) ** 0.5)
            if nearest:
                yield kind, text, [one for one, _ in nearest[: MESSAGES if kind == "messages" else SENTENCES]]
        parts = [one.strip() for one in _SENTENCE_END.split(text) if len(one) in SENTENCE_CHARACTERS]
        sentences = [(one, words(one)) for one in parts]
        kinds["messages"].append((text, said))
        kinds["sentences of both"] += sentences
        kinds["sentences of the person"] += [] if is_answer else sentences


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "nousweb.settings")
    django.setup()
    from context.feedback.sentence_notes import findings_of, sentence_notes

    def alarmed(answer: str, memories: list[str]) -> bool:
        notes = sentence_notes(answer, {}, dict(enumerate(memories, 1)))
        return bool(findings_of(notes))

    chance, counts = random.Random(1), dict[str, list[bool]]()
    for one in json.loads(Path(sys.argv[1] if sys.argv[1:] else DEFAULT_FILE).read_text()):
        told = {
            name.removesuffix("_observation"): [fact[0] for facts in observed.values() for fact in facts]
            for name, observed in one["observation"].items()
        }
        speakers = one["conversation"]["speaker_a"], one["conversation"]["speaker_b"]
        for session, memories in told.items():
            beside = [fact for other, facts in told.items() if other != session for fact in facts]
            more = [*memories, *chance.sample(beside, min(OTHERS, len(beside)))]
            if summary := one["session_summary"].get(f"{session}_summary"):
                counts.setdefault("false alarms, own memories", []).append(alarmed(summary, memories))
                counts.setdefault("false alarms, with others", []).append(alarmed(summary, more))
            for memory in memories:
                counts.setdefault("false alarms, said again", []).append(alarmed(memory, more))
                for what, answer in spoilt(memory, speakers):
                    counts.setdefault(f"found: {what}", []).append(alarmed(answer, more))
    for chat in beam.chats_of(Path(sys.argv[2] if sys.argv[2:] else beam.DEFAULT_FOLDER)):
        for kind, answer, memories in chat_answers(chat):
            counts.setdefault(f"false alarms, {kind}", []).append(alarmed(answer, memories))
    for name, found in sorted(counts.items()):
        sys.stdout.write(f"{name:40} {sum(found):5} of {len(found):5} {sum(found) / len(found):6.1%}\n")


if __name__ == "__main__":
    main()
