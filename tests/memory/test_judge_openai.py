"""A judge with OpenAI's protocol on this machine: the forms that servers take, and facts judged over the API."""

import time
from collections.abc import Iterator

import pytest
from django.test import override_settings

from memory.comparison.fact_snapshot import FactSnapshot
from memory.judge import JudgeFailed, JudgeUnavailable, configured_judge
from memory.lifecycle.runner import job_run
from memory.models import Fact, FactChange, Job, JudgeCall, Relation
from tests.judge_server import JudgeServer, Reply

OLD, NEW = FactSnapshot("Alice lives in Berlin."), FactSnapshot("Alice moved to Paris.")
UPDATE = {"relation": "update", "confidence": 0.9, "reason": "She moved."}


@pytest.fixture
def server(monkeypatch) -> Iterator[JudgeServer]:
    monkeypatch.setenv("OPENAI_ORG_ID", "an-organisation")
    monkeypatch.setenv("OPENAI_API_KEY", "another-key")
    with JudgeServer("openai") as server, server.configured(OPENAI_API_KEY="", JUDGE_MODEL="small"):
        yield server


def _asked(ada):
    return configured_judge().relation(agent=ada, persona="actor", old=OLD, new=NEW).value.relation


def test_openai_judge_without_a_key_sends_none(server, ada):
    server.reply(**UPDATE)
    assert _asked(ada) is Relation.UPDATE
    (headers,) = server.headers
    assert not {"authorization", "openai-organization", "openai-project"} & headers.keys()
    assert "another-key" not in str(headers)
    assert configured_judge().name == "openai:small"
    with override_settings(OPENAI_API_KEY="its-key"):
        server.reply(**UPDATE)
        _asked(ada)
    assert server.headers[1]["authorization"] == "Bearer its-key"


@pytest.mark.parametrize(
    ("takes", "sent"),
    [
        ({"max_tokens"}, [{"response_format", "max_tokens"}, {"max_tokens"}, {"max_tokens"}]),
        (
            {"response_format", "max_completion_tokens"},
            [
                {"response_format", "max_tokens"},
                {"response_format", "max_completion_tokens"},
                {"response_format", "max_completion_tokens"},
            ],
        ),
    ],
)
def test_openai_judge_finds_the_form_that_a_server_takes_and_keeps_it(server, ada, takes, sent):
    server.forms = takes
    server.reply(**UPDATE).reply(**UPDATE)
    assert [_asked(ada), _asked(ada)] == [Relation.UPDATE] * 2
    assert [{*request} - {"model", "messages"} for request in server.requests] == sent
    assert server.requests[-1].get("max_completion_tokens", 4_000) == 4 * server.requests[0]["max_tokens"]
    assert JudgeCall.objects.filter(attempts=1, error="", tokens_in=100).count() == 2


def test_openai_judge_form_is_kept_only_if_it_helped(server, ada):
    server.fail(400).fail(400).reply(**UPDATE)
    with pytest.raises(JudgeFailed):
        _asked(ada)
    assert _asked(ada) is Relation.UPDATE
    assert "response_format" in server.requests[2]


def test_openai_judge_attempts_in_two_forms_have_one_time_limit(server, ada):
    server.fail(400)
    server.hang()
    with override_settings(JUDGE_TIMEOUT_SECONDS=1):
        began = time.monotonic()
        with pytest.raises(JudgeUnavailable, match="in time"):
            _asked(ada)
        # The server would let it wait for a minute.
        assert time.monotonic() - began < 30


def test_openai_judge_down_fails_the_job_and_decides_when_it_is_back(server, ada, api, actor_token):
    client = api.as_token(actor_token)
    server.always(Reply(status=500, raw=b"{}"))
    for text in ("Tim never goes to the gym on Mondays.", "Tim sometimes goes to the gym on Mondays."):
        answer = client.post("/facts", {"content": text, "subject": "Tim"})
        assert answer.status_code == 201, answer.content
    job = Job.objects.get(handler="fact_check")
    assert job_run(job.pk) == "failed"
    job.refresh_from_db()
    assert (job.error, job.attempts) == ("The judge answered 500.", 0)
    server.always(Reply(input=UPDATE))
    assert job_run(job.pk) == "done"
    change = FactChange.objects.get(action="superseded")
    assert (change.evidence["judge"]["relation"], change.evidence["judge"]["model"]) == ("update", "small")
    assert [fact.content for fact in Fact.objects.active()] == ["Tim sometimes goes to the gym on Mondays."]
