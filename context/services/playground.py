"""The playground: a person sends a message to an agent, and sees its memory in the prompt.

A turn leaves no trace unless it is stored. It is assembled as a dry run, which is not logged, and only `_keep` writes
memory: the same as the agent's own client would, in the name of the playground.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import transaction

from context.engine.analysis.request import ContextRequest
from context.engine.context_record import ContextRecord
from context.engine.retrieval.censors import active_censors, censors_check, check_blocks
from context.models import ContextRun
from context.services.context import INPUT, context_assemble, context_respond
from identity.models import Agent, Persona
from identity.principal import Principal
from identity.services.audit import audit_record
from memory.models import Trust
from memory.persona import persona_memory
from memory.services.events import events_record
from memory.services.model_chat import Chat, ChatAnswer, ChatFailed, chat_ask, chat_model
from memory.services.quarantine.memories import scan_agent_text
from nousweb.lib import DomainError, existing

TALK = "context.talk_to_agent"
MAX_LOOP_CHARACTERS = 100


@dataclass(frozen=True, slots=True)
class PlaygroundTurn:
    """The result of one message. `record` is the prompt with all decisions behind it, with the id of its run if it is
    stored.

    `is_asked`: whether the model was called. `answer` is None if it was not or it failed, as `failure` explains;
    `failure` also explains why an answer could not be stored. `answer_check` is the check of the answer
    (`censors_check`). `quarantined` names the texts that the screening would quarantine, or has quarantined: "message",
    "answer".
    """

    record: ContextRecord
    kept: bool
    is_asked: bool = False
    answer: ChatAnswer | None = None
    failure: str = ""
    answer_check: Mapping[str, Any] | None = None
    quarantined: tuple[str, ...] = ()

    @property
    def blocked(self) -> str:
        """The side that censors block: "input", "answer" or ""."""
        if check_blocks(self.record.censors[INPUT]):
            return "input"
        return "answer" if self.answer_check is not None and check_blocks(self.answer_check) else ""


def playground_turn(*, agent: Agent, request: ContextRequest, keep: bool, by: Principal) -> PlaygroundTurn:
    """Assemble the context of the actor for a message, and ask the model where the settings name one.

    What censors block is not sent to the model. With `keep` the context, its answer and both as events are logged as
    the agent's client would log them; otherwise nothing of it is written. The audit trail says that the model was asked
    or that it was kept, without a word of it. Raises NotAllowed, NotFound, Invalid. Not to be called in a transaction:
    it waits for the model.
    """
    by.require(TALK, agent)
    # It is no person: the texts have the trust of an agent's words, and so they are screened.
    writer = Principal("system", "playground", f"{by.name} in the playground", by.request_id, channel=by.channel)
    wanted = replace(request, dry_run=not keep, explain=not keep)
    record = context_assemble(agent=agent, request=wanted, by=writer if keep else by)
    [turn] = _answered(agent, [(request, PlaygroundTurn(record, keep))], by)
    if turn.answer is not None and keep:
        try:
            turn = replace(turn, answer_check=_keep(agent, request, record, turn.answer.text, writer))
        except DomainError as refused:
            turn = replace(turn, failure=f"The answer could not be stored. {refused.detail}")
    if turn.is_asked or keep:
        _audit(agent, turn, by)
    return turn


def playground_compare(
    *, agent: Agent, sides: Sequence[tuple[ContextRequest, Mapping[str, str]]], by: Principal, ask: bool = True
) -> list[PlaygroundTurn]:
    """A turn for each side, a message with other texts of identity sections, at the same time. Nothing is kept but the
    audit records. Without `ask`, the prompts alone. Raises and waits as `playground_turn` does."""
    by.require(TALK, agent)
    tried = [(replace(request, dry_run=True, explain=True), identity) for request, identity in sides]
    records = [context_assemble(agent=agent, request=wanted, by=by, identity=identity) for wanted, identity in tried]
    blank = [(request, PlaygroundTurn(record, False)) for (request, _), record in zip(sides, records, strict=True)]
    turns = _answered(agent, blank, by) if ask else [turn for _, turn in blank]
    for turn in turns:
        if turn.is_asked:
            _audit(agent, turn, by)
    return turns


def _answered(
    agent: Agent, turns: Sequence[tuple[ContextRequest, PlaygroundTurn]], by: Principal
) -> list[PlaygroundTurn]:
    """The turns with the model's answers, those that may be sent to it."""
    done = [turn for _, turn in turns]
    asked = [place for place, turn in enumerate(done) if chat_model() and not turn.blocked]
    chats = []
    for place in asked:
        request, turn = turns[place]
        messages = [*((message.role, message.content) for message in request.conversation), ("user", request.input)]
        chats.append(Chat(turn.record.system_prompt, messages))
    results = chat_ask(agent=agent, persona=Persona.ACTOR, chats=chats) if chats else []
    for place, result in zip(asked, results, strict=True):
        if isinstance(result, ChatFailed):
            done[place] = replace(done[place], is_asked=True, failure=str(result))
            continue
        said = (("message", turns[place][0].input), ("answer", result.text))
        done[place] = replace(
            done[place],
            is_asked=True,
            answer=result,
            answer_check=censors_check(result.text, active_censors(persona_memory(agent, by))),
            quarantined=tuple(
                name for name, text in said if scan_agent_text(agent, Persona.ACTOR, text, Trust.AGENT)[0]
            ),
        )
    return done


def _keep(
    agent: Agent, request: ContextRequest, record: ContextRecord, answer: str, writer: Principal
) -> Mapping[str, Any]:
    """Report the answer to the logged context and record both texts as events, like an agent's client at the end of a
    turn; returns the check of the answer."""
    run = existing(
        ContextRun.objects.select_related("agent").filter(pk=record.id).first() if record.id else None,
        "The logged context has been erased in the meantime.",
    )
    check = context_respond(run=run, response=answer, by=writer).check
    shared = {"loop_id": request.session_id[:MAX_LOOP_CHARACTERS], "project": request.project, "user": request.user}
    shared = {name: value for name, value in shared.items() if value}
    said = (("user_input", request.input, "input"), ("actor_output", answer, "answer"))
    events = [{"kind": kind, "content": text, "key": f"{run.pk}:{side}", **shared} for kind, text, side in said]
    events_record(agent=agent, events=events, by=writer)
    return check


@transaction.atomic
def _audit(agent: Agent, turn: PlaygroundTurn, by: Principal) -> None:
    answer = turn.answer
    audit_record(
        by=by,
        action="playground.talk",
        target=agent,
        agent=agent,
        after={
            "model": answer.model if answer else chat_model(),
            "tokens_in": answer.tokens_in if answer else 0,
            "tokens_out": answer.tokens_out if answer else 0,
            "blocked": turn.blocked,
            "failed": bool(turn.failure),
            "kept_as": str(turn.record.id or ""),
        },
    )
