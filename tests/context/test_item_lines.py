"""Memories of several lines in the prompt of POST /api/context."""

import pytest

from context.engine.assembly import list_item
from context.engine.assembly.text_compression import compress
from memory.services.facts import fact_learn
from memory.services.procedures import procedure_create
from nousweb.lib.token_estimate import estimate_tokens
from tests.context.test_seed_assemblies import ask

CODE = "Drain the billing queue:\n```python\nfor job in queue:\n    # In order.\n    job.run()\n```\nThen stop."


@pytest.fixture
def billing(ada, system):
    procedure_create(
        agent=ada,
        name="Restart the billing queue",
        description="How the billing queue is restarted.",
        steps=["Stop the billing queue.", "Run:\nsystemctl restart billing\nsystemctl status billing", "Start it."],
        by=system,
    )
    fact_learn(agent=ada, content=CODE, by=system)
    return ada


def test_prompt_numbers_the_steps_and_keeps_the_lines_of_code(api, billing, actor_token):
    body = ask(api, actor_token, "How is the billing queue restarted and drained?")
    prompt = body["system_prompt"]
    assert "  1. Stop the billing queue.\n  2. Run:\n" in prompt
    assert "     systemctl restart billing\n     systemctl status billing\n" in prompt
    assert "  3. Start it." in prompt
    assert f"Drain the billing queue:\n  {CODE.partition(chr(10))[2].replace(chr(10), chr(10) + '  ')}" in prompt
    assert body["tokens"] == estimate_tokens(prompt)


def test_shortened_code_ends_at_a_line_and_closes_its_fence():
    text = "Run this:\n```sh\n" + "make deploy TARGET=production\n" * 30 + "```"
    short = compress(text, "deploy", max_tokens=60, min_share=0.1)
    assert estimate_tokens(short) <= 60
    shown = list_item(short)
    assert shown.startswith("- Run this:\n  ```sh\n  make deploy TARGET=production\n")
    assert shown.endswith("\n  make deploy TARGET=production\n  …\n  ```")


def test_shortened_prose_keeps_the_breaks_between_its_sentences():
    text = "The export runs at night.\nNobody reads it. Then the weather is fine.\nThe export fails on Mondays."
    short = compress(text, "When does the export fail?", max_tokens=18, min_share=0.1)
    assert short == "The export runs at night.\n… The export fails on Mondays."
