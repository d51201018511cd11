"""The models of an agent's memory: every module of this folder."""

from importlib import import_module
from pkgutil import iter_modules

from memory.models.base import (
    UNIT_INTERVAL,
    Memory,
    MemoryQuerySet,
    OriginFields,
    ProjectKeyFields,
    Scope,
    Trust,
    Validity,
    expired_q,
    not_valid_at_sql,
    not_yet_valid_q,
    valid_at_q,
    valid_at_sql,
    validity_at,
)
from memory.models.censors import Censor, CensorQuerySet
from memory.models.decisions import Decision
from memory.models.documents import Document, DocumentQuerySet, document_address
from memory.models.episodes import Episode, EpisodeEvent
from memory.models.events import (
    Event,
    EventKind,
    EventQuerySet,
    EventSequence,
    LongTermEntry,
    LoopSummary,
    LoopSummaryQuerySet,
)
from memory.models.facts import (
    HUMAN_VERIFIED_FIRST,
    SAME_WORDS,
    SUBJECT_NAME,
    Fact,
    FactChange,
    FactQuerySet,
    Relation,
    RelationOpinion,
)
from memory.models.file_runs import FileRun, ImportedMemory
from memory.models.jobs import Job, JobQuerySet, JudgeCall, JudgeTask
from memory.models.procedures import Procedure
from memory.models.project_scope import (
    EVERYTHING,
    GLOBAL,
    STAND_INS,
    ProjectScope,
    ScopedMemory,
    carried_keys,
    key_check,
    keys_changed,
    same_keys,
    scope_check,
    scope_contains,
    scope_contains_sql,
    scope_label,
    scopes_overlap,
    scopes_overlap_sql,
    tier_of,
)
from memory.models.reviews import MemoryReview, MemoryReviewQuerySet, Screening
from memory.models.search_index import (
    EmbeddingModel,
    IndexStatus,
    ItemType,
    SearchItem,
    SearchLanguage,
    SearchPassage,
    SearchStatistics,
)
from memory.models.subjects import MAX_SPELLING_CHARACTERS, Attribute, Subject, SubjectAlias, SubjectChange
from memory.models.working_memory import WorkingMemory

for module in iter_modules(__path__):
    import_module(f"{__name__}.{module.name}")

__all__ = [
    "EVERYTHING",
    "GLOBAL",
    "HUMAN_VERIFIED_FIRST",
    "MAX_SPELLING_CHARACTERS",
    "SAME_WORDS",
    "STAND_INS",
    "SUBJECT_NAME",
    "UNIT_INTERVAL",
    "Attribute",
    "Censor",
    "CensorQuerySet",
    "Decision",
    "Document",
    "DocumentQuerySet",
    "EmbeddingModel",
    "Episode",
    "EpisodeEvent",
    "Event",
    "EventKind",
    "EventQuerySet",
    "EventSequence",
    "Fact",
    "FactChange",
    "FactQuerySet",
    "FileRun",
    "ImportedMemory",
    "IndexStatus",
    "ItemType",
    "Job",
    "JobQuerySet",
    "JudgeCall",
    "JudgeTask",
    "LongTermEntry",
    "LoopSummary",
    "LoopSummaryQuerySet",
    "Memory",
    "MemoryQuerySet",
    "MemoryReview",
    "MemoryReviewQuerySet",
    "OriginFields",
    "Procedure",
    "ProjectKeyFields",
    "ProjectScope",
    "Relation",
    "RelationOpinion",
    "Scope",
    "ScopedMemory",
    "Screening",
    "SearchItem",
    "SearchLanguage",
    "SearchPassage",
    "SearchStatistics",
    "Subject",
    "SubjectAlias",
    "SubjectChange",
    "Trust",
    "Validity",
    "WorkingMemory",
    "carried_keys",
    "document_address",
    "expired_q",
    "key_check",
    "keys_changed",
    "not_valid_at_sql",
    "not_yet_valid_q",
    "same_keys",
    "scope_check",
    "scope_contains",
    "scope_contains_sql",
    "scope_label",
    "scopes_overlap",
    "scopes_overlap_sql",
    "tier_of",
    "valid_at_q",
    "valid_at_sql",
    "validity_at",
]
