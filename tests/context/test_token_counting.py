"""Exact numbers of tokens from the counting endpoint, over real HTTP; the estimate where there is none."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.core.cache import cache

from context.models import ContextRun
from context.services.prompt_token_counts import TRIED_FOR, context_runs_count
from nousweb.lib import clock
from nousweb.lib.background import tasks_declared
from tests.factories import EXPORT, make_fact, make_run
from tests.http import browser
from tests.judge_server import JudgeServer, Reply

URL = "/agents/ada/context/"
EXACT = {"COUNTER": "anthropic", "COUNTER_MODEL": "claude-counted", "COUNTER_TIMEOUT_SECONDS": 1}


@pytest.fixture
def endpoint() -> Iterator[JudgeServer]:
    cache.clear()
    with JudgeServer() as server, server.configured(**EXACT):
        yield server
    cache.clear()


def words(text: str) -> int:
    return len(text.split())


def test_token_count_of_a_sent_prompt_comes_afterwards(ada, actor, endpoint, alice):
    run = make_run(ada, actor)
    assert not endpoint.counts, "no agent waits for a count"
    assert context_runs_count() == 1
    run.refresh_from_db()
    assert run.counted_tokens == words(run.system_prompt), "without what the message beside it takes"
    assert (run.counted_by, endpoint.counts[0]["model"]) == ("claude-counted", "claude-counted")
    assert endpoint.counts[0]["system"] == run.system_prompt
    page = browser(alice).get(f"{URL}{run.pk}/").content.decode()
    assert f">{run.counted_tokens} tokens</span>" in page
    assert f"checked with the estimate, ≈ {run.tokens}" in page
    listed = browser(alice).get(f"{URL}runs/").content.decode()
    assert f'title="Counted by claude-counted">{run.counted_tokens}</span>' in listed
    assert context_runs_count() == 0, "each is counted once"


def test_token_count_of_equal_prompts_is_requested_once(ada, actor, endpoint):
    for _ in range(3):
        make_run(ada, actor)
    assert context_runs_count() == 3
    assert len(endpoint.counts) == 2, "one for the prompt and one for the message beside it"


@pytest.mark.parametrize(
    "reply",
    [
        Reply(status=529, raw=b"{}"),
        Reply(status=401, raw=b"{}"),
        Reply(raw=b"no json"),
        Reply(raw=b'{"input_tokens": "many"}'),
        Reply(raw=b'{"input_tokens": -1}'),
    ],
    ids=["overloaded", "wrong key", "no json", "no number", "below nothing"],
)
def test_token_count_keeps_the_estimate_when_the_endpoint_fails_and_retries(ada, actor, endpoint, alice, reply):
    first, second = make_run(ada, actor, "hello"), make_run(ada, actor)
    endpoint.count_replies.append(reply)
    assert context_runs_count() == 0
    assert len(endpoint.counts) == 1, "the next prompt would fare no better"
    page = browser(alice).get(f"{URL}{second.pk}/").content.decode()
    assert f"≈ {second.tokens} tokens" in page
    assert context_runs_count() == 2
    assert ContextRun.objects.exclude(counted_tokens=None).count() == len({first.pk, second.pk})


def test_token_count_refused_for_one_prompt_does_not_delay_others(ada, actor, endpoint):
    make_run(ada, actor, "hello")
    refused = make_run(ada, actor)
    endpoint.count_replies.append(Reply(status=413, raw=b"{}"))
    assert context_runs_count() == 1
    refused.refresh_from_db()
    assert refused.counted_tokens is None


def test_token_count_past_its_deadline_keeps_the_estimate(ada, actor, endpoint):
    run = make_run(ada, actor)
    ContextRun.objects.filter(pk=run.pk).update(created_at=clock.now() - TRIED_FOR - timedelta(minutes=1))
    assert context_runs_count() == 0


def test_token_count_without_an_endpoint_is_not_requested(ada, actor):
    make_run(ada, actor)
    with JudgeServer() as server, server.configured(COUNTER="estimate"):
        assert context_runs_count() == 0
        assert not server.counts
    assert tasks_declared()["context.tasks.count_tokens"].minutes


def test_token_count_of_a_preview_comes_after_it_is_shown(ada, system, endpoint, alice):
    make_fact(ada, "The ledger export failed because the replica lagged.", system)
    client = browser(alice)
    page = client.get(URL, {"input": EXPORT})
    shown = page.context["shown"]
    assert f'hx-post="{URL}tokens/"' in page.content.decode()
    assert f"≈ {shown.record.tokens} tokens" in page.content.decode()
    assert not endpoint.counts
    counted = client.post(f"{URL}tokens/", {"input": EXPORT}).content.decode()
    assert f">{words(shown.record.system_prompt)} tokens</span>" in counted
    assert "≈" not in counted.split(">", 1)[1]
    assert not ContextRun.objects.exists()


def test_token_count_of_a_preview_keeps_the_estimate_on_failure(ada, endpoint, alice):
    endpoint.count_replies.append(Reply(status=500, raw=b"{}"))
    counted = browser(alice).post(f"{URL}tokens/", {"input": EXPORT}).content.decode()
    assert "≈" in counted
    assert "could not be counted: The endpoint answered 500." in counted
    assert "hx-post" not in counted, "it is not asked in a circle"


def test_token_count_of_no_prompt_is_absent(ada, endpoint, alice):
    assert browser(alice).post(f"{URL}tokens/", {"input": ""}).status_code == 422
