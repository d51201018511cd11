"""Words of the search by the language of each agent: one function that reads texts, and whose dictionary each row is by.

Texts of scripts without spaces between words are read as overlapping pieces of the script: of Chinese characters each one
and each pair, of kana and Hangul each pair, of Thai, Lao, Khmer and Burmese letters each three.
"""

import django.db.models.deletion
import django.contrib.postgres.fields
import nousweb.lib.clock
from django.db import migrations, models

HAN = r"\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
KATAKANA = r"\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
HIRAGANA = r"\u3041-\u309f"
HANGUL = r"\uac00-\ud7a3"
SOUTHEAST = r"\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0edf\u1000-\u109f\u1780-\u17d3"
UNSPACED = HAN + KATAKANA + HIRAGANA + HANGUL + SOUTHEAST
PIECES = f"[{HAN}]+|[{KATAKANA}]+|[{HIRAGANA}]+|[{HANGUL}]+|[{SOUTHEAST}]+|[^{UNSPACED}]+"

STOPPED = (
    # Endings, particles and question words of Japanese.
    "です ます まし した して する され れま せん ませ から まで ので には では とは ない なく なり なる ある あり りま いま"
    " いる でし ょう しょ たい くだ ださ さい てい こと もの ため よう この その どこ だれ なに いつ どの どれ すか たか るか"
    " のは のが のを んな どん くら らい 何 誰 どう なぜ は が を に で と も の へ や か ね よ な"
    # Words of Chinese that say nothing by themselves.
    " 的 了 是 在 我 你 他 她 它 们 們 这 這 那 和 与 與 有 也 就 而 及 着 或 吗 嗎 呢 吧 啊 什么 什麼 怎么 怎麼 哪 几"
)
"""Pieces that are left out, as the stop words of other languages are."""

FUNCTIONS = rf"""
CREATE FUNCTION nous_pieces(run text, size integer) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (SELECT coalesce(string_agg(substr(run, place, size), ' '), '')
            FROM generate_series(1, greatest(length(run) - size + 1, 1)) AS place
            WHERE substr(run, place, size) <> ALL (string_to_array('{STOPPED}', ' ')));

CREATE FUNCTION nous_spaced(words text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (
        SELECT string_agg(CASE
            WHEN part ~ '^[{HAN}]' THEN nous_pieces(part, 1) || ' ' || nous_pieces(part, 2)
            WHEN part ~ '^[{SOUTHEAST}]' THEN nous_pieces(part, 3)
            WHEN part ~ '^[{UNSPACED}]' THEN nous_pieces(part, 2)
            ELSE part END, ' ')
        FROM regexp_matches(words, '{PIECES}', 'g') AS found (parts), unnest(parts) AS part);

CREATE FUNCTION nous_terms(dictionary text, words text) RETURNS tsvector
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN to_tsvector(
        dictionary::regconfig, CASE WHEN words ~ '[{UNSPACED}]' THEN nous_spaced(words) ELSE words END);
"""
NO_FUNCTIONS = """
DROP FUNCTION nous_terms(text, text);
DROP FUNCTION nous_spaced(text);
DROP FUNCTION nous_pieces(text, integer);
"""

TEXT = "CASE WHEN starts_with(lower(text), lower(subject)) THEN text ELSE subject || ' ' || text END"
COLUMNS = """
DROP INDEX memory_searchitem_words;
DROP INDEX memory_searchitem_agent;
ALTER TABLE memory_searchitem
    DROP COLUMN terms, DROP COLUMN words, DROP COLUMN names, {dictionary},
    ADD COLUMN terms tsvector GENERATED ALWAYS AS ({read}{text})) STORED,
    ADD COLUMN words integer GENERATED ALWAYS AS (nous_word_count({read}{text}))) STORED,
    ADD COLUMN names text[] GENERATED ALWAYS AS (tsvector_to_array({read}subject))) STORED;
CREATE INDEX memory_searchitem_words ON memory_searchitem USING gin (nous_agent_lexemes(agent_id, terms));
CREATE INDEX memory_searchitem_agent ON memory_searchitem (agent_id, active) INCLUDE (words);

DROP INDEX memory_subjectalias_lead;
ALTER TABLE memory_subjectalias DROP COLUMN lexemes, {dictionary},
    ADD COLUMN lexemes text[] GENERATED ALWAYS AS (tsvector_to_array({read}spelling))) STORED;
CREATE INDEX memory_subjectalias_lead ON memory_subjectalias (agent_id, persona, (lexemes[1]));
"""
FORWARD = COLUMNS.format(
    dictionary="ADD COLUMN dictionary varchar(20) NOT NULL DEFAULT 'english'", read="nous_terms(dictionary, ", text=TEXT
)
BACKWARD = COLUMNS.format(dictionary="DROP COLUMN dictionary", read="to_tsvector('english', ", text=TEXT)


class Migration(migrations.Migration):
    dependencies = [("identity", "0015_audit_channels"), ("memory", "0030_document_erasure")]
    operations = [
        migrations.RunSQL(FUNCTIONS, NO_FUNCTIONS),
        migrations.CreateModel(
            name="SearchLanguage",
            fields=[
                ("agent", models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name="+", serialize=False, to="identity.agent")),
                ("dictionary", models.CharField(default="english", max_length=20)),
                ("detected", models.CharField(blank=True, max_length=10)),
                ("looked_at", models.PositiveIntegerField(default=0)),
                ("since", models.DateTimeField(default=nousweb.lib.clock.now)),
            ],
        ),
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(FORWARD, BACKWARD)],
            state_operations=[
                migrations.AddField(
                    "searchitem", "dictionary", models.CharField(db_default="english", default="english", max_length=20)
                ),
                migrations.AddField(
                    "subjectalias",
                    "dictionary",
                    models.CharField(db_default="english", default="english", max_length=20),
                ),
                migrations.RemoveField("subjectalias", "lexemes"),
                migrations.AddField(
                    "subjectalias",
                    "lexemes",
                    models.GeneratedField(
                        db_persist=True,
                        expression=models.Func(
                            models.Func(models.F("dictionary"), models.F("spelling"), function="nous_terms"),
                            function="tsvector_to_array",
                        ),
                        output_field=django.contrib.postgres.fields.ArrayField(base_field=models.TextField()),
                    ),
                ),
            ],
        ),
    ]
