"""Whether the range of each question is right, by language, and which ordinary sentences get one.

`python -m benchmarks.time_questions [FILE …]`: the files are questions and held_out, unless named.
"""

import os
import sys
from collections import Counter

import django

from benchmarks.time_questions import questions


def main(files: list[str]) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "nousweb.settings")
    django.setup()
    from context.engine.analysis.agent_time import time_read

    for name in files or ["questions", "held_out"]:
        right, total = Counter[str](), Counter[str]()
        for one in questions(name):
            asked = time_read(one.text, one.now, one.zone, [one.language]).period
            total[one.language] += 1
            if asked and (asked.start, asked.end) == (one.start, one.end):
                right[one.language] += 1
            else:
                print(f"  {one.language} {one.text} → {asked}")
        shares = ", ".join(f"{language} {right[language]}/{total[language]}" for language in total)
        print(f"{name}: {sum(right.values()) / sum(total.values()):.3f} ({shares})")
    sentences = [*questions("ordinary")]
    ranged = [one for one in sentences if time_read(one.text, one.now, one.zone, [one.language]).period]
    for one in ranged:
        print(f"  {one.language} {one.text}")
    print(f"ordinary sentences with a range: {len(ranged) / len(sentences):.3f} ({len(ranged)} of {len(sentences)})")


if __name__ == "__main__":
    main(sys.argv[1:])
