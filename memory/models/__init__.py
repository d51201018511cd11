"""The models of an agent's memory."""

from memory.models.base import UNIT_INTERVAL, Memory, OriginFields, Scope, Trust
from memory.models.censors import Censor
from memory.models.decisions import Decision
from memory.models.documents import Document
from memory.models.episodes import Episode, EpisodeEvent
from memory.models.events import Event, EventKind, EventSequence, LongTermEntry, LoopSummary
from memory.models.facts import Fact, FactChange
from memory.models.file_runs import FileRun
from memory.models.import_provenance import ImportedMemory
from memory.models.jobs import Job
from memory.models.judge_calls import JudgeCall, JudgeTask
from memory.models.procedures import Procedure
from memory.models.reviews import MemoryReview, Screening
from memory.models.search_index import (
    EmbeddingModel,
    IndexStatus,
    ItemType,
    SearchItem,
    SearchLanguage,
    SearchPassage,
    SearchStatistics,
)
from memory.models.subjects import Attribute, Subject, SubjectAlias, SubjectChange
from memory.models.working_memory import WorkingMemory

__all__ = [
    "UNIT_INTERVAL",
    "Attribute",
    "Censor",
    "Decision",
    "Document",
    "EmbeddingModel",
    "Episode",
    "EpisodeEvent",
    "Event",
    "EventKind",
    "EventSequence",
    "Fact",
    "FactChange",
    "FileRun",
    "ImportedMemory",
    "IndexStatus",
    "ItemType",
    "Job",
    "JudgeCall",
    "JudgeTask",
    "LongTermEntry",
    "LoopSummary",
    "Memory",
    "MemoryReview",
    "OriginFields",
    "Procedure",
    "Scope",
    "Screening",
    "SearchItem",
    "SearchLanguage",
    "SearchPassage",
    "SearchStatistics",
    "Subject",
    "SubjectAlias",
    "SubjectChange",
    "Trust",
    "WorkingMemory",
]
