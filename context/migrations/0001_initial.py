"""The tables of contexts for a new database."""

import uuid

import django.core.validators
from django.db import migrations, models

from nousweb.database.table_operations import CreateTables
from nousweb.lib.clock import now


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("identity", "0001_initial"),
        ("memory", "0001_initial"),
    ]

    operations = [
        CreateTables(
            [
                migrations.CreateModel(
                    name="ContextProfile",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        (
                            "slug",
                            models.CharField(
                                max_length=50,
                                unique=True,
                                validators=[
                                    django.core.validators.RegexValidator(
                                        "^[a-z0-9][a-z0-9_-]{0,49}$", "Use lower-case letters, digits, - or _."
                                    )
                                ],
                            ),
                        ),
                        ("name", models.CharField(max_length=100)),
                        (
                            "kind",
                            models.CharField(
                                blank=True,
                                choices=[
                                    ("knight", "Knight: carries work out"),
                                    ("squire", "Squire: reviews and helps"),
                                    ("royalty", "Royalty: plans and delegates"),
                                    ("peasant", "Peasant: one narrow helper task"),
                                ],
                                max_length=20,
                            ),
                        ),
                        ("built_in", models.BooleanField(default=False)),
                        ("created_at", models.DateTimeField(default=now, editable=False)),
                        (
                            "base",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=models.PROTECT,
                                related_name="heirs",
                                to="context.contextprofile",
                            ),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("kind", ""), _negated=True), fields=("kind",), name="one_profile_per_kind"
                            ),
                        ],
                        "ordering": ["slug"],
                    },
                ),
                migrations.CreateModel(
                    name="ContextProfileVersion",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        (
                            "author_kind",
                            models.CharField(
                                choices=[("person", "Person"), ("token", "Agent"), ("system", "System")], max_length=10
                            ),
                        ),
                        ("author_id", models.CharField(max_length=100)),
                        ("author_name", models.CharField(max_length=200)),
                        ("version", models.PositiveIntegerField()),
                        ("values", models.JSONField(default=dict)),
                        ("is_current", models.BooleanField(default=True)),
                        ("reason", models.TextField(blank=True)),
                        ("created_at", models.DateTimeField(default=now, editable=False)),
                        (
                            "profile",
                            models.ForeignKey(on_delete=models.PROTECT, related_name="versions", to="context.contextprofile"),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("profile", "version"), name="one_row_per_profile_version"),
                            models.UniqueConstraint(
                                condition=models.Q(("is_current", True)),
                                fields=("profile",),
                                name="one_current_profile_version",
                            ),
                        ],
                        "ordering": ["profile", "-version"],
                    },
                ),
                migrations.CreateModel(
                    name="ContextRun",
                    fields=[
                        ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        (
                            "persona",
                            models.CharField(choices=[("actor", "Actor"), ("subconscious", "Subconscious")], max_length=20),
                        ),
                        ("session_id", models.CharField(max_length=200)),
                        ("input", models.TextField()),
                        ("request", models.JSONField()),
                        ("system_prompt", models.TextField()),
                        ("sections", models.JSONField()),
                        ("tokens", models.PositiveIntegerField()),
                        ("counted_tokens", models.PositiveIntegerField(null=True)),
                        ("counted_by", models.CharField(blank=True, max_length=100)),
                        ("budget_tokens", models.PositiveIntegerField(default=0)),
                        ("frame", models.CharField(blank=True, max_length=20)),
                        ("profile", models.CharField(blank=True, max_length=100)),
                        ("decisions", models.JSONField(default=dict)),
                        ("candidates", models.JSONField(default=list)),
                        ("fingerprint_id", models.CharField(blank=True, max_length=20)),
                        ("fingerprint", models.JSONField(default=dict)),
                        ("failed_sections", models.JSONField(default=list)),
                        ("timings", models.JSONField(default=dict)),
                        ("censors", models.JSONField(default=dict)),
                        ("as_of", models.DateTimeField(null=True)),
                        ("duration_ms", models.FloatField()),
                        (
                            "outcome",
                            models.CharField(
                                blank=True,
                                choices=[("", "Not reported"), ("success", "Success"), ("failure", "Failure")],
                                max_length=10,
                            ),
                        ),
                        ("outcome_note", models.TextField(blank=True)),
                        ("responded_at", models.DateTimeField(null=True)),
                        ("response", models.TextField(blank=True, db_default="", default="")),
                        ("principal_name", models.CharField(max_length=200)),
                        ("trace_id", models.CharField(blank=True, db_default="", default="", max_length=32)),
                        ("created_at", models.DateTimeField(default=now, editable=False)),
                        (
                            "agent",
                            models.ForeignKey(
                                db_index=False, on_delete=models.PROTECT, related_name="context_runs", to="identity.agent"
                            ),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["agent", "-created_at", "-id"], name="context_con_agent_i_1fb6fc_idx"),
                            models.Index(
                                fields=["created_at"],
                                include=("agent", "persona", "tokens", "duration_ms", "responded_at", "outcome"),
                                name="context_run_figures",
                            ),
                            models.Index(
                                fields=["agent", "fingerprint_id", "-created_at"], name="context_con_agent_i_a900b4_idx"
                            ),
                        ],
                        "ordering": ["-created_at", "-id"],
                        "permissions": [
                            ("assemble_context", "Can ask for a context"),
                            ("report_context", "Can report what became of a context"),
                            ("talk_to_agent", "Can talk to an agent in the playground"),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="ContextRecall",
                    fields=[
                        ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        (
                            "persona",
                            models.CharField(choices=[("actor", "Actor"), ("subconscious", "Subconscious")], max_length=20),
                        ),
                        ("action", models.CharField(choices=[("search", "Searched"), ("expand", "Expanded")], max_length=10)),
                        ("request", models.JSONField()),
                        ("items", models.JSONField(default=list)),
                        ("principal_name", models.CharField(max_length=200)),
                        ("created_at", models.DateTimeField(default=now, editable=False)),
                        ("agent", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="identity.agent")),
                        ("run", models.ForeignKey(on_delete=models.CASCADE, related_name="recalls", to="context.contextrun")),
                    ],
                    options={
                        "ordering": ["created_at", "id"],
                    },
                ),
                migrations.CreateModel(
                    name="Expectation",
                    fields=[
                        (
                            "author_kind",
                            models.CharField(
                                choices=[("person", "Person"), ("token", "Agent"), ("system", "System")], max_length=10
                            ),
                        ),
                        ("author_id", models.CharField(max_length=100)),
                        ("author_name", models.CharField(max_length=200)),
                        ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        (
                            "persona",
                            models.CharField(
                                choices=[("actor", "Actor"), ("subconscious", "Subconscious")], default="actor", max_length=20
                            ),
                        ),
                        ("request", models.JSONField(default=dict)),
                        (
                            "requirement",
                            models.CharField(
                                choices=[
                                    ("present", "Must be in the prompt"),
                                    ("absent", "Must not be in the prompt"),
                                    ("only_of_subject", "Must be the only fact of its subject"),
                                ],
                                max_length=20,
                            ),
                        ),
                        (
                            "target",
                            models.CharField(
                                choices=[("memory", "Memory"), ("text", "Text"), ("section", "Section")], max_length=10
                            ),
                        ),
                        ("item_type", models.CharField(blank=True, max_length=10)),
                        ("item_id", models.CharField(blank=True, max_length=36)),
                        ("text", models.TextField(blank=True)),
                        ("section", models.CharField(blank=True, max_length=50)),
                        ("reason", models.TextField(blank=True)),
                        ("active", models.BooleanField(default=True)),
                        ("revision", models.PositiveIntegerField(default=1)),
                        ("created_at", models.DateTimeField(default=now, editable=False)),
                        ("updated_at", models.DateTimeField(default=now, editable=False)),
                        (
                            "agent",
                            models.ForeignKey(on_delete=models.PROTECT, related_name="expectations", to="identity.agent"),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                fields=["agent", "persona", "-created_at", "-id"], name="context_exp_agent_i_fe3b1d_idx"
                            ),
                        ],
                        "ordering": ["-created_at", "-id"],
                        "permissions": [("run_expectation", "Can check expectations")],
                    },
                ),
                migrations.CreateModel(
                    name="ExpectationResult",
                    fields=[
                        ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        (
                            "persona",
                            models.CharField(
                                choices=[("actor", "Actor"), ("subconscious", "Subconscious")], default="actor", max_length=20
                            ),
                        ),
                        ("revision", models.PositiveIntegerField(default=1)),
                        (
                            "state",
                            models.CharField(
                                choices=[("passed", "Passed"), ("failed", "Failed"), ("error", "Could not run")], max_length=10
                            ),
                        ),
                        ("code", models.CharField(max_length=30)),
                        ("detail", models.TextField(blank=True)),
                        ("cause", models.JSONField(default=dict)),
                        ("positions", models.JSONField(default=dict)),
                        ("since", models.DateTimeField(default=now, editable=False)),
                        ("checked_at", models.DateTimeField(default=now, editable=False)),
                        ("checks", models.PositiveIntegerField(default=1)),
                        ("is_current", models.BooleanField(default=True)),
                        ("agent", models.ForeignKey(on_delete=models.PROTECT, related_name="+", to="identity.agent")),
                        (
                            "expectation",
                            models.ForeignKey(on_delete=models.CASCADE, related_name="results", to="context.expectation"),
                        ),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["expectation", "-since"], name="context_exp_expecta_d26abe_idx"),
                            models.Index(
                                condition=models.Q(("is_current", True), models.Q(("state", "passed"), _negated=True)),
                                fields=["agent", "persona"],
                                name="expectation_broken",
                            ),
                        ],
                        "constraints": [
                            models.UniqueConstraint(
                                condition=models.Q(("is_current", True)),
                                fields=("expectation",),
                                name="one_current_expectation_result",
                            ),
                        ],
                        "ordering": ["-since", "-id"],
                    },
                ),
                migrations.CreateModel(
                    name="ExpectationWatch",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        (
                            "persona",
                            models.CharField(
                                choices=[("actor", "Actor"), ("subconscious", "Subconscious")], default="actor", max_length=20
                            ),
                        ),
                        ("positions", models.JSONField(default=dict)),
                        ("profiles", models.PositiveBigIntegerField(default=0)),
                        ("checked_at", models.DateTimeField(default=now)),
                        ("duration_ms", models.PositiveIntegerField(default=0)),
                        ("agent", models.ForeignKey(on_delete=models.PROTECT, related_name="+", to="identity.agent")),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(fields=("agent", "persona"), name="one_expectation_watch"),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="FigureSnapshot",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        ("name", models.CharField(max_length=40)),
                        (
                            "persona",
                            models.CharField(choices=[("actor", "Actor"), ("subconscious", "Subconscious")], max_length=20),
                        ),
                        ("value", models.JSONField()),
                        ("at", models.DateTimeField()),
                        (
                            "agent",
                            models.ForeignKey(null=True, on_delete=models.CASCADE, related_name="figures", to="identity.agent"),
                        ),
                    ],
                    options={
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("name", "agent", "persona"), name="one_snapshot", nulls_distinct=False
                            ),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="InboxRank",
                    fields=[
                        ("item_id", models.UUIDField(primary_key=True, serialize=False)),
                        (
                            "persona",
                            models.CharField(choices=[("actor", "Actor"), ("subconscious", "Subconscious")], max_length=20),
                        ),
                        (
                            "risk",
                            models.CharField(choices=[("low", "Low"), ("medium", "Medium"), ("high", "High")], max_length=10),
                        ),
                        ("prompts", models.BigIntegerField()),
                        ("prompts_both", models.BigIntegerField()),
                        ("alike", models.CharField(max_length=32)),
                        ("at", models.DateTimeField()),
                        ("agent", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="identity.agent")),
                    ],
                ),
                migrations.CreateModel(
                    name="MemoryUsage",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        (
                            "persona",
                            models.CharField(choices=[("actor", "Actor"), ("subconscious", "Subconscious")], max_length=20),
                        ),
                        ("item_type", models.CharField(max_length=10)),
                        ("item_id", models.CharField(max_length=36)),
                        ("referenced", models.BooleanField()),
                        ("overlap", models.FloatField()),
                        ("spans", models.JSONField(null=True)),
                        ("tokens", models.PositiveIntegerField(default=0)),
                        ("section", models.CharField(blank=True, max_length=30)),
                        ("counted", models.BooleanField(db_default=True, default=True)),
                        ("at", models.DateTimeField(default=now)),
                        ("agent", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="identity.agent")),
                        ("run", models.ForeignKey(on_delete=models.CASCADE, related_name="usages", to="context.contextrun")),
                    ],
                    options={
                        "indexes": [
                            models.Index(
                                fields=["agent", "item_type", "item_id", "-at"], name="context_mem_agent_i_09115a_idx"
                            ),
                            models.Index(fields=["agent", "-at"], name="context_mem_agent_i_5917a9_idx"),
                            models.Index(
                                fields=["at"],
                                include=("agent", "persona", "section", "tokens", "referenced"),
                                name="usage_figures",
                            ),
                        ],
                        "constraints": [
                            models.UniqueConstraint(fields=("run", "item_type", "item_id"), name="one_usage_per_run"),
                        ],
                        "ordering": ["-at", "-id"],
                    },
                ),
                migrations.CreateModel(
                    name="ContextPin",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        (
                            "author_kind",
                            models.CharField(
                                choices=[("person", "Person"), ("token", "Agent"), ("system", "System")], max_length=10
                            ),
                        ),
                        ("author_id", models.CharField(max_length=100)),
                        ("author_name", models.CharField(max_length=200)),
                        ("item_type", models.CharField(max_length=10)),
                        ("item_id", models.CharField(max_length=36)),
                        ("created_at", models.DateTimeField(default=now, editable=False)),
                        (
                            "agent",
                            models.ForeignKey(on_delete=models.CASCADE, related_name="context_pins", to="identity.agent"),
                        ),
                    ],
                    options={
                        "ordering": ["-created_at", "-id"],
                        "constraints": [
                            models.UniqueConstraint(fields=("agent", "item_type", "item_id"), name="one_pin_per_memory")
                        ],
                    },
                ),
            ]
        ),
    ]
