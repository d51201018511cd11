"""Write the tables of docs/benchmarks.md from the results of the last runs: python -m benchmarks.tables

A table is between `<!-- table NAME -->` and `<!-- end NAME -->`. A table without results is not changed.
"""

import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import beam, locomo
from benchmarks.languages.__main__ import LANGUAGES
from benchmarks.system import PROJECT, RESULTS

DOCUMENT = PROJECT / "docs" / "benchmarks.md"


def written(document: str, results: Path) -> tuple[str, list[str]]:
    """`document` with the tables whose results are in the folder `results`, and their names.

    Raises ValueError when the document has no place for one of them.
    """
    names = []
    for name, (file, table) in TABLES.items():
        if (results / file).exists():
            place = re.compile(rf"(?<=<!-- table {name} -->\n).*?(?=<!-- end {name} -->)", re.DOTALL)
            lines = table(json.loads((results / file).read_text()))
            document, found = place.subn(lambda _, lines=lines: f"\n{lines}\n\n", document)  # type: ignore[misc]
            if found != 1:
                raise ValueError(f"There are {found} places for the table {name}.")
            names.append(name)
    return document, names


def lines_of(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def share(value: float | None) -> str:
    """A share with three decimals, as the tables show it."""
    return "–" if value is None else f"{value:.3f}".removeprefix("0")


def locomo_table(found: dict[str, Any]) -> str:
    """All, and each category."""
    records = found["questions"]
    groups = {"all": records}
    for number, label in locomo.CATEGORIES.items():
        groups[label] = [one for one in records if one["category"] == number]
    rows = []
    for label, chosen in groups.items():
        if chosen:
            of = locomo.summary(chosen)
            false = of["false_context_rate"]
            columns = ("recall@5", "recall@10", "recall@20", "mrr", "kept@10", "precision@10")
            cells = [share(of[column]) for column in columns]
            rows.append([label, str(len(chosen)), *cells, "–" if false is None else f"{false:.1%}".replace("%", " %")])
    head = ["", "questions", "recall@5", "recall@10", "recall@20", "MRR", "kept@10", "precision@10", "false context"]
    return lines_of(head, rows)


def beam_table(found: dict[str, Any]) -> str:
    """All, each kind of question, and the number of items for unanswerable ones."""
    records = found["questions"]
    groups = {"all": records} | {
        kind: [one for one in records if one["kind"] == kind] for kind in dict.fromkeys(one["kind"] for one in records)
    }
    rows = []
    for label, chosen in groups.items():
        if any(one["evidence"] for one in chosen):
            of = beam.summary(chosen)
            columns = ("recall@10", "recall@20", "recall@50", "kept", "precision")
            rows.append(
                [label, str(of["questions"]), *(share(of[column]) for column in columns), f"{of['returned']:.1f}"]
            )
        else:
            shown = sum(one["kept"] for one in chosen) / len(chosen)
            rows.append([label, str(len(chosen)), *["–"] * 5, f"{shown:.1f}"])
    head = ["", "questions", "recall@10", "recall@20", "recall@50", "kept@20", "precision@20", "above the threshold"]
    return lines_of(head, rows)


def curve_table(found: dict[str, Any]) -> str:
    """Evidence in the prompt by budget."""
    rows = []
    for budget, of in found["summary"].items():
        columns = [f"{way}_{what}" for what in ("complete", "evidence") for way in ("engine", "fill", "cosine")]
        used = f"{of['tokens']:,.0f}, {of['fill_tokens']:,.0f}"
        rows.append([f"{int(budget):,}", *(share(of[column]) for column in columns), used])
    ways = [f"{way}, {what}" for what in ("complete", "evidence") for way in ("default", "`fill`", "cosine")]
    return lines_of(["Tokens", *ways, "used: default, `fill`"], rows)


def pairs_table(found: dict[str, Any]) -> str:
    """Of all splits of labelled pairs together: wrongly stored pairs and unnecessary reviews."""
    groups = {group: [of[group] for of in found.values()] for group in ("changed", "beside", "same")}
    row = [f"{sum(one['wrong'] for one in of):,} of {sum(one['pairs'] for one in of):,}" for of in groups.values()]
    row.append(str(sum(one["confirmed"] for one in groups["changed"])))
    head = ["changed: stored without a review", "compatible: opened a review", "paraphrases: stored"]
    return lines_of([*head, "changed: confirmed"], [row])


def speed_table(found: dict[str, Any]) -> str:
    """By contender and by number of clients: latency, throughput, CPU by part and memory."""
    rows = []
    for (name, what), answers in _by_contender(found["answers"]).items():
        one, eight = answers[1], answers[8]
        parts = {part: eight.get(f"{part}_cpu_ms", 0.0) for part in ("web", "server", "caller", "postgres")}
        rows.append(
            [
                f"{CONTENDERS[name]}, {what}",
                f"{one['p50_ms']:.1f} / {one['p95_ms']:.1f}",
                *(f"{of['per_second']:.0f}" for of in answers.values()),
                f"{parts['web'] + parts['server']:.1f}",
                f"{parts['caller']:.1f}",
                f"{parts['postgres']:.1f}",
                f"{found['megabytes'][name]:.0f}",
            ]
        )
    clients = [f"/s, {count}" for count in answers]
    cpu = [f"{part}, ms" for part in ("server", "caller", "PostgreSQL")]
    return lines_of(["clients:", "p50 / p95, 1", *clients, *cpu, "MB"], rows)


def _by_contender(answers: list[dict[str, Any]]) -> dict[tuple[str, str], dict[int, dict[str, Any]]]:
    grouped: dict[tuple[str, str], dict[int, dict[str, Any]]] = {}
    for one in answers:
        grouped.setdefault((one["contender"], one["what"]), {})[one["clients"]] = one
    return grouped


CONTENDERS = {
    "now": "Nous Web",
    "before": "at the start",
    "mem0": "mem0",
    "langgraph": "LangGraph",
    "chroma": "Chroma, HTTP",
}


def started_table(found: dict[str, Any]) -> str:
    """Storing by CPU, and starts."""
    rows = []
    for name, of in found["ingested"].items():
        starts = found["started"][name]
        rate = [f"{of[kind]['cpu_milliseconds_per_message']:.1f} ms" for kind in ("short", "long")]
        seconds = [f"{starts[key]:.1f} s" for key in ("first_seconds", "second_seconds", "command_seconds")]
        rows.append([CONTENDERS[name], *rate, *seconds])
    for name in dict.fromkeys(stored.split()[0] for stored in found["stored"]):
        stored = [found["stored"][f"{name} {kind}"] for kind in ("short", "long")]
        cpu = [sum(value for key, value in of.items() if key.endswith("_cpu_ms")) for of in stored]
        rows.append([CONTENDERS[name], *(f"{value:.1f} ms" for value in cpu), "", "", ""])
    head = ["short message, CPU", "long", "demo, first", "second", "`demoinfo`"]
    return lines_of(["", *head], rows)


def left_out_table(found: dict[str, Any]) -> str:
    """By corpus: simple scores, and fits without the measured data."""
    columns = ("@10", "@20", "@50", "kept@10", "precision@10")
    rows = []
    for label, of in found["scores"].items():
        for group, values in of.items():
            cells = {name: value for name, value in zip(found["measures"], values, strict=False) if value == value}
            if "@10" in cells and ":" not in group:
                rows.append([label, group, *(share(cells.get(column)) for column in columns)])
    return lines_of(["", "", "recall@10", "recall@20", "recall@50", "above the threshold@10", "precision@10"], rows)


def languages_table(found: dict[str, Any]) -> str:
    """For each way of searching and language: the first hit, and the evidence among five."""
    rows = []
    for way in _ways(found):
        cells = [
            f"{share(of[way]['hit@1'])} / {share(of[way]['recall@5'])}" if way in of else "–" for of in found.values()
        ]
        rows.append([way, *cells])
    return lines_of(["first hit / recall@5", *(LANGUAGES[code] for code in found)], rows)


def _ways(found: dict[str, Any]) -> list[str]:
    """The ways of searching, without those that read every language by the English dictionary."""
    ways = dict.fromkeys(way for of in found.values() for way in of)
    return [way for way in ways if way != "detected" and not way.endswith("English dictionary")]


def language_thresholds_table(found: dict[str, Any]) -> str:
    """For each search and language: the items above the threshold, and false contexts."""
    rows = []
    for way in (way for way in _ways(found) if way.startswith("search")):
        cells = []
        for of in found.values():
            one = of.get(way)
            cells.append(f"{share(one['kept'])} / {one['returned']:.1f} / {one['false_contexts']:.0%}" if one else "–")
        rows.append([way, *(cell.replace("%", " %") for cell in cells)])
    return lines_of(["kept@10 / returned / false contexts", *(LANGUAGES[code] for code in found)], rows)


def large_table(found: dict[str, Any]) -> str:
    """Milliseconds at one size in each of three states."""
    states = {"as_loaded": "as loaded", "while_building": "while the vector index is built", "indexed": "indexed"}
    rows = [
        [what, *(f"{found[state][f'{what}_p50_ms']:.0f} / {found[state][f'{what}_p95_ms']:.0f}" for state in states)]
        for what in ("recall", "context")
    ]
    return lines_of([f"p50 / p95, ms at {found['items']:,}", *states.values()], rows)


def sizes_table(found: dict[str, Any]) -> str:
    """Disk, memory and time of the largest size."""
    rows = [
        ["database", f"{found['database_bytes'] / 1e9:.1f} GB"],
        ["tables of the search, with their indexes", f"{found['index_bytes'] / 1e9:.1f} GB"],
        ["of these, the vector index", f"{found['vector_index_bytes'] / 1e9:.1f} GB"],
        ["loading by COPY, with the index of words", f"{found['load_seconds'] + found['word_index_seconds']:.0f} s"],
        ["counting", f"{found['count_seconds']:.1f} s"],
        ["building the vector index", f"{found['vector_index_seconds']:.0f} s"],
        ["VACUUM after one row in a hundred changed", f"{found['vacuum_seconds']:.0f} s"],
        ["rebuilding the index of words", f"{found['reindex_words_seconds']:.0f} s"],
        ["a web process of four threads", f"{found['web_bytes'] / 1e6:.0f} MB"],
    ]
    return lines_of([f"at {found['items']:,}", ""], rows)


def ingestion_table(found: dict[str, Any]) -> str:
    """The cost of a short and of a long message."""
    rows = [
        [
            name,
            f"{of['characters']:,}",
            f"{of['cpu_milliseconds_per_message']:.1f} ms",
            f"{of['found_per_second_on_two_free_cores']:.0f}",
            f"{of['per_second_on_two_free_cores']:.0f}"
            if name == "short"
            else f"{of['per_second_on_two_free_cores']:.1f}",
        ]
        for name, of in found.items()
    ]
    return lines_of(["messages", "characters", "CPU per message", "found by meaning per second", "complete"], rows)


TABLES: dict[str, tuple[str, Callable[[dict[str, Any]], str]]] = {
    "locomo": ("locomo-prefix.json", locomo_table),
    "beam": ("beam.json", beam_table),
    "curve": ("context-curve.json", curve_table),
    "curve-beam": ("context-curve-beam.json", curve_table),
    "pairs": ("fact-pairs.json", pairs_table),
    "speed": ("speed.json", speed_table),
    "starts": ("speed.json", started_table),
    "left-out": ("left-out.json", left_out_table),
    "languages": ("languages.json", languages_table),
    "language-thresholds": ("languages.json", language_thresholds_table),
    "ingestion": ("ingestion.json", ingestion_table),
    "large-10000": ("large-10000.json", large_table),
    "large-100000": ("large-100000.json", large_table),
    "large-1000000": ("large-1000000.json", large_table),
    "large-sizes": ("large-1000000.json", sizes_table),
}
"""By name: the file of the results, and the function that makes its table."""


def main() -> int:
    document, names = written(DOCUMENT.read_text(), RESULTS)
    DOCUMENT.write_text(document)
    print(f"{DOCUMENT}: {', '.join(names) or 'no results, nothing'} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
