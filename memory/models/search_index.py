"""The search index: one derived row per searchable memory, rebuilt at will from the primary rows."""

from django.contrib.postgres.search import SearchVectorField
from django.db import models
from pgvector.django import HalfVectorField

from identity.models import Agent, AgentRow, Persona
from memory.models.base import ProjectKeyFields, Scope
from nousweb.lib import clock


class ItemType(models.TextChoices):
    EVENT = "event", "Event"
    FACT = "fact", "Fact"
    EPISODE = "episode", "Episode"
    PROCEDURE = "procedure", "Procedure"
    DECISION = "decision", "Decision"
    DOCUMENT = "document", "Document"


class IndexStatus(models.TextChoices):
    PENDING = "pending", "Pending"
    READY = "ready", "Ready"
    FAILED = "failed", "Failed"


class SearchItem(ProjectKeyFields):
    """A row of the index. The table is partitioned by persona: each persona's rows are a table of their own.

    `position` orders the items of one loop, so that a hit can ask its neighbours. `retired_at` closes the span in which
    the item was known, for searches as of a moment; `valid_from` and `valid_until` are those of a fact. `words` counts
    the terms with their repeats. A pending row is tried at `due_at` or, without one, at once. `next_embedding` is of
    the model that the index is moving to. `passages` counts those of the text that have vectors of their own; None
    before it is known. `standing` says whether the text is to be kept to from then on
    (memory.types.stores). `dictionary` is PostgreSQL's, by which `terms`, `words` and `names` were read.
    """

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+")
    persona = models.CharField(max_length=20, choices=Persona)
    item_type = models.CharField(max_length=10, choices=ItemType)
    item_id = models.CharField(max_length=36)
    kind = models.CharField(max_length=50, blank=True)
    category = models.CharField(max_length=50, blank=True)
    scope = models.CharField(max_length=10, choices=Scope)
    subject = models.CharField(max_length=200, blank=True)
    loop_id = models.CharField(max_length=100, blank=True)
    position = models.BigIntegerField(default=0)
    tags = models.JSONField(default=list)
    importance = models.FloatField()
    active = models.BooleanField(default=True)
    happened_at = models.DateTimeField()
    recorded_at = models.DateTimeField()
    retired_at = models.DateTimeField(null=True)
    valid_from = models.DateTimeField(null=True)
    valid_until = models.DateTimeField(null=True)
    text = models.TextField()
    terms = SearchVectorField()
    words = models.IntegerField(default=0)
    embedding = HalfVectorField(null=True)
    model = models.CharField(max_length=100, blank=True)
    status = models.CharField(max_length=10, choices=IndexStatus, default=IndexStatus.PENDING)
    attempts = models.PositiveSmallIntegerField(default=0)
    error = models.TextField(blank=True)
    due_at = models.DateTimeField(null=True)
    next_embedding = HalfVectorField(null=True)
    next_model = models.CharField(max_length=100, blank=True)
    passages = models.PositiveSmallIntegerField(null=True)
    standing = models.CharField(max_length=20, blank=True, default="", db_default="")
    dictionary = models.CharField(max_length=20, default="english", db_default="english")

    class Meta:
        db_table = "memory_searchitem"


class SearchPassage(AgentRow):
    """A passage of a long text, from the character `begins` to before `ends`, with the vector of `model`.

    `row_id` is the row of the index whose text it is; it counts while that row has a vector of the same model. It goes
    with its row. The table is partitioned by persona like the index.
    """

    pk = models.CompositePrimaryKey("row_id", "model", "place", "persona", "agent")
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+")
    persona = models.CharField(max_length=20, choices=Persona)
    row_id = models.BigIntegerField()
    model = models.CharField(max_length=100)
    place = models.PositiveSmallIntegerField()
    begins = models.PositiveIntegerField()
    ends = models.PositiveIntegerField()
    embedding = HalfVectorField()

    class Meta:
        db_table = "memory_searchpassage"


class SearchLanguage(AgentRow):
    """By which dictionary of PostgreSQL the words of an agent are read; English for an agent without a row.

    `detected` is the language that the memories of its actor seem to be in (a code of memory.search.languages; empty
    when none is certain), `looked_at` how many there were when that was found. Rows of the index with another
    dictionary are read again in the background.
    """

    agent = models.OneToOneField(Agent, on_delete=models.CASCADE, primary_key=True, related_name="+")
    dictionary = models.CharField(max_length=20, default="english")
    detected = models.CharField(max_length=10, blank=True)
    looked_at = models.PositiveIntegerField(default=0)
    since = models.DateTimeField(default=clock.now)


class EmbeddingModel(models.Model):
    """The embedding model of the vectors in the index, and the model to which the index is moving, if any.

    The index remembers its model itself: settings that change must not make every stored vector meaningless.
    """

    class State(models.TextChoices):
        ACTIVE = "active", "Active"
        BUILDING = "building", "Building"

    name = models.CharField(max_length=100)
    dimension = models.PositiveIntegerField()
    state = models.CharField(max_length=10, choices=State, unique=True)
    since = models.DateTimeField(default=clock.now)

    def __str__(self) -> str:
        return self.name


class SearchStatistics(AgentRow):
    """Counts over one persona's collection of an agent, for those that are too large to count at every search.

    `common` maps lexemes that many items hold to how many. `vector_index_model` names the model for whose vectors
    the collection has an approximate index of its own.
    """

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+")
    persona = models.CharField(max_length=20, choices=Persona)
    items = models.PositiveIntegerField()
    mean_words = models.FloatField()
    common = models.JSONField(default=dict)
    vector_index_model = models.CharField(max_length=100, blank=True)
    counted_at = models.DateTimeField(default=clock.now)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["agent", "persona"], name="one_count_per_collection")]
