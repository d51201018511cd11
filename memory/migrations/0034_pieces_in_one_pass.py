"""Pieces of a script without spaces in one pass over its letters.

`substr` counts them from the beginning for each piece: a text of 20,000 Chinese characters took seconds to store. The
pieces are the same, so no row has to be read again.
"""

from importlib import import_module

from django.db import migrations

earlier = import_module("memory.migrations.0031_search_languages")

ONE_PASS = f"""
CREATE OR REPLACE FUNCTION nous_pieces(run text, size integer) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (
        SELECT coalesce(string_agg(piece, ' ' ORDER BY place), '')
        FROM (
            SELECT place, lead(letter, size - 1) OVER following AS last,
                letter || CASE WHEN size > 1 THEN coalesce(lead(letter) OVER following, '') ELSE '' END
                    || CASE WHEN size > 2 THEN coalesce(lead(letter, 2) OVER following, '') ELSE '' END AS piece
            FROM unnest(string_to_array(run, NULL)) WITH ORDINALITY AS letters (letter, place)
            WINDOW following AS (ORDER BY place)) AS pieces
        WHERE (place = 1 OR last IS NOT NULL) AND piece <> ALL (string_to_array('{earlier.STOPPED}', ' ')));
"""
"""Of each letter the piece of so many that begins with it, at most three; a shorter run is one piece."""
BEFORE = earlier.FUNCTIONS.partition("CREATE FUNCTION nous_spaced")[0].replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")


class Migration(migrations.Migration):
    dependencies = [("memory", "0033_import_runs")]

    operations = [migrations.RunSQL(ONE_PASS, BEFORE)]
