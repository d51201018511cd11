"""Paths, addresses and identifiers are read part by part, and numbers without a sign.

PostgreSQL's parser reads `BENCH-100821` as a word and a negative number, and a path, host or address as one word.

- Instead of a path, an address or an identifier with separators, its parts are words, one after another: a query finds
  the whole as a phrase. A dotted number (version, IP address) stays one word.
- A word in camel case, or of letters and three digits or more, stays too; its parts have no position.
- Groups of digits ("+49 30 1234567") are also one number, and its last nine digits after "tail", by which a telephone
  number is found with and without its country code. Both have no position.
"""

from django.db import migrations

UNSPACED = (
    r"\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
    r"\uff66-\uff9f\u3041-\u309f\uac00-\ud7a3\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0edf\u1000-\u109f\u1780-\u17d3"
)
SPECIAL = r"[0-9_@#/\\<>&|=~%+]|[A-Za-z][.:][A-Za-z]|[a-z][A-Z]|[A-Z]{2}[a-z]{2}"
"""In a text without any of these, all words are plain."""
SEPARATORS = (
    r"([A-Za-z0-9]{2})[.](?=[A-Za-z])|([A-Za-z0-9])[.](?=[A-Za-z]{2})|([A-Za-z]{2})[.](?=[0-9])|([0-9])-(?=[A-Za-z])"
    r"|[/\\:=@_~%&#<>|+]|-(?=[0-9])"
)
"""The dots of `U.S.` and `e.g.` do not separate. What stands before is captured, for PostgreSQL looks behind slowly."""
UNSAID = r"\m[Hh][Tt]{2}[Pp][Ss]?://(?:www[.])?|\m[Vv](?=[0-9]+[.][0-9])|(-[0-9]{2})T(?=[0-9]{2}:)"
"""The scheme of an address, the letter before a version, and the one between a date and a time, are no words."""
COMPOUND = (
    r"\m(?!JavaScript\M)[A-Za-z0-9]*(?:[a-z][A-Z]|[A-Z]{2}[a-z]{2})[A-Za-z0-9]*|\m[A-Za-z]+[0-9]{3,}[A-Za-z]?\M"
    r"|\m[A-Z]{2}[0-9]{2}[A-Z]{4}[0-9]{7,}\M"
)
"""JavaScript is not a kind of Java."""
BOUNDS = r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z])(?=[0-9]{3})"
GROUPS = r"[+]?[0-9]+(?:[ ().\u00a0/-]{1,3}[0-9]+){0,8}"

FUNCTIONS = rf"""
CREATE FUNCTION nous_split(words text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN regexp_replace(
        regexp_replace(
            regexp_replace(translate(words, U&'\2010\2011\2212', '---'), '([A-Za-z])[+][+]', '\1 plusplus', 'g'),
            '\m([A-Za-z])#(?![A-Za-z0-9])', '\1 sharp', 'g'),
        '{UNSAID}|{SEPARATORS}', '\2\3\4\5\1 ', 'g');

CREATE FUNCTION nous_parts(words text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (
        SELECT coalesce(string_agg(regexp_replace(found[1], '{BOUNDS}', ' ', 'g'), ' '), '')
        FROM regexp_matches(words, '{COMPOUND}', 'g') AS found);

CREATE FUNCTION nous_numbers(words text) RETURNS text[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (
        SELECT coalesce(array_agg(DISTINCT number), '{{}}')
        FROM regexp_matches(words, '{GROUPS}', 'g') WITH ORDINALITY AS found (run, place),
            LATERAL (
                SELECT string_agg(digits[1], '') OVER (PARTITION BY place ORDER BY nth) AS until,
                    count(*) OVER (PARTITION BY place) AS groups
                FROM regexp_matches(run[1], '[0-9]+', 'g') WITH ORDINALITY AS part (digits, nth)
            ) AS part,
            unnest(CASE WHEN length(until) BETWEEN 9 AND 40 AND (groups > 1 OR run[1] ~ '^[+0]' OR length(until) > 12)
                THEN ARRAY[until, 'tail' || right(until, 9), regexp_replace(until, '^1([0-9]{{10}})$', '\1')]
                WHEN length(until) BETWEEN 7 AND 8 AND groups > 1 THEN ARRAY[until] END) AS number);

CREATE OR REPLACE FUNCTION nous_terms(dictionary text, words text) RETURNS tsvector
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN words ~ '{SPECIAL}' THEN
        to_tsvector(dictionary::regconfig, CASE WHEN words ~ '[{UNSPACED}]'
            THEN nous_spaced(nous_split(words)) ELSE nous_split(words) END)
        || strip(to_tsvector(dictionary::regconfig, nous_parts(words))) || array_to_tsvector(nous_numbers(words))
    ELSE to_tsvector(dictionary::regconfig, CASE WHEN words ~ '[{UNSPACED}]' THEN nous_spaced(words) ELSE words END)
    END;
"""

NO_FUNCTIONS = rf"""
CREATE OR REPLACE FUNCTION nous_terms(dictionary text, words text) RETURNS tsvector
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN to_tsvector(
        dictionary::regconfig, CASE WHEN words ~ '[{UNSPACED}]' THEN nous_spaced(words) ELSE words END);
DROP FUNCTION nous_numbers(text);
DROP FUNCTION nous_parts(text);
DROP FUNCTION nous_split(text);
"""

READ_AGAIN = f"""
UPDATE memory_searchitem SET dictionary = dictionary WHERE text ~ '{SPECIAL}' OR subject ~ '{SPECIAL}';
UPDATE memory_subjectalias SET dictionary = dictionary WHERE spelling ~ '{SPECIAL}';
"""
"""Generated columns are made anew by an update of a column that they depend on."""


class Migration(migrations.Migration):
    dependencies = [("memory", "0047_valid_time_in_index")]
    operations = [
        migrations.RunSQL(migrations.RunSQL.noop, READ_AGAIN),
        migrations.RunSQL(FUNCTIONS, NO_FUNCTIONS),
        migrations.RunSQL(READ_AGAIN, migrations.RunSQL.noop),
    ]
