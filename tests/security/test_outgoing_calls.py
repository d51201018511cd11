"""Programs that the product calls, and that answer as no honest one does: each call ends in time, with its own error.

Slow answers would be right and whole in the end, so that a call that waits for them succeeds, which fails the test.
"""

import json

import pytest
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.models import SocialAccount, SocialLogin
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from django.contrib.auth.models import AnonymousUser, User
from django.test import Client, RequestFactory, override_settings

from context.services.prompt_token_counts import CountFailed, tokens_count
from identity.services.webhook_address import NotSent, message_send
from memory.comparison.fact_snapshot import FactSnapshot
from memory.embedding import EmbeddingFailed
from memory.embedding.openai import OpenAIEmbedder
from memory.judge import JudgeFailed, configured_judge
from memory.judge.endpoint import MAX_TOKENS_COUNTED
from memory.models import JudgeCall
from memory.services.model_chat import Chat, ChatFailed, chat_ask
from nousweb.access.provider_login import NONCE, ProviderAdapter
from nousweb.lib.http_exchange import BadAnswer, http_exchange, json_is_deep
from tests.hostile_server import DEEP, HostileServer, answer

SECONDS = 1
HUGE = 10**18
BAD = {
    "deep": DEEP,
    "deep inside": b'{"content": [{"a": "[", "b": ' + DEEP + b"}]}",
    "half deep": b"[" * 100_000,
    "no JSON": b"<html>",
    "no object": b"[1, 2]",
    "nothing": b"",
    "not text": b"\xff\xfe{}",
    "number": b"1" * 5_000,
    "no message": b'{"choices": [null], "usage": 1}',
    "no text": b'{"choices": [{"message": {"content": [1]}}], "usage": {"prompt_tokens": []}}',
}


@pytest.fixture
def server(settings):
    with HostileServer().running() as server:
        settings.JUDGE = settings.COUNTER = "anthropic"
        settings.ANTHROPIC_API_KEY, settings.JUDGE_BASE_URL = "key", server.url
        settings.JUDGE_TIMEOUT_SECONDS = settings.COUNTER_TIMEOUT_SECONDS = SECONDS
        settings.JUDGE_RETRIES = settings.JUDGE_DAILY_TOKENS = 0
        settings.WEBHOOK_ALLOW_PRIVATE = True
        yield server


OLD, NEW = FactSnapshot("Alice lives in Berlin."), FactSnapshot("Alice moved to Paris.")
VERDICT = {"relation": "update", "confidence": 0.9, "reason": "She moved."}


def message(*content, tokens=20):
    """A right answer of a model."""
    return {
        "id": "m", "type": "message", "role": "assistant", "model": "a-model", "content": content,
        "stop_reason": "end_turn", "stop_sequence": None,
        "usage": {"input_tokens": tokens, "output_tokens": tokens, "cache_read_input_tokens": tokens},
    }  # fmt: skip


TOOL = {"type": "tool_use", "id": "t", "name": "record_relation", "input": VERDICT}
TEXT = {"type": "text", "text": "Yes."}


def judge(ada, server):
    return configured_judge().relation(agent=ada, persona="actor", old=OLD, new=NEW).value.relation


def chat(ada, server):
    [answer] = chat_ask(agent=ada, persona="actor", chats=[Chat("", [("user", "Well?")])])
    if isinstance(answer, ChatFailed):
        raise answer
    return answer.text


def completion(text, tokens=20):
    """A right answer of a server with OpenAI's protocol."""
    return {
        "id": "c", "object": "chat.completion", "created": 1, "model": "a-model",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": tokens, "completion_tokens": tokens, "total_tokens": tokens},
    }  # fmt: skip


def of_openai(ask):
    """The same question to a server with OpenAI's protocol."""

    def asked(ada, server):
        with override_settings(JUDGE="openai", OPENAI_API_KEY="", JUDGE_BASE_URL=f"{server.url}/v1"):
            return ask(ada, server)

    return asked


def count(ada, server):
    # The count of nothing is subtracted.
    return tokens_count(f"Of {server.url}?")


def embed(ada, server):
    embedder = OpenAIEmbedder("m", base_url=server.url, timeout=SECONDS, query_timeout=SECONDS, retries=0)
    return [round(float(number), 1) for number in embedder.embed_query("What?")]


CALLS = {
    "judge": (judge, message(TOOL), JudgeFailed, "update"),
    "chat": (chat, message(TEXT), ChatFailed, "Yes."),
    "judge of openai": (of_openai(judge), completion(json.dumps(VERDICT)), JudgeFailed, "update"),
    "chat of openai": (of_openai(chat), completion("Yes."), ChatFailed, "Yes."),
    "counter": (count, {"input_tokens": 7}, CountFailed, 0),
    "embedder": (embed, {"data": [{"index": 0, "embedding": [3.0, 4.0]}]}, EmbeddingFailed, [0.6, 0.8]),
}
each_call = pytest.mark.parametrize("call", CALLS)


@each_call
def test_right_answers_are_taken(server, ada, call):
    ask, right, _, wanted = CALLS[call]
    server.gives(right)
    assert ask(ada, server) == wanted


@each_call
def test_this_machine_is_never_asked_through_a_proxy(server, ada, call, monkeypatch):
    # A proxy elsewhere would be sent memories for a server that it cannot reach.
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    ask, right, _, wanted = CALLS[call]
    server.gives(right)
    assert ask(ada, server) == wanted


@each_call
@pytest.mark.parametrize("drips", ["head", "body"])
def test_answers_that_drip_end_with_the_time_limit(server, ada, call, drips):
    ask, right, error, _ = CALLS[call]
    server.gives(right, drips=drips)
    with pytest.raises(error):
        ask(ada, server)


@each_call
@pytest.mark.parametrize("bad", BAD)
def test_answers_in_another_form_are_refused(server, ada, call, bad):
    ask, _, error, _ = CALLS[call]
    server.gives(BAD[bad])
    with pytest.raises(error):
        ask(ada, server)


@each_call
def test_compressed_answers_are_not_unpacked(server, ada, call):
    ask, right, error, _ = CALLS[call]
    server.gives(right, compressed=True)
    with pytest.raises(error):
        ask(ada, server)


@pytest.mark.parametrize("number", [HUGE, -HUGE, 1e300, None, True, [7]])
def test_numbers_of_tokens_are_clamped(server, ada, number):
    for said, ask, wanted in (
        (message(TOOL, tokens=number), judge, "update"),
        (message(TEXT, tokens=number), chat, "Yes."),
        (completion(json.dumps(VERDICT), tokens=number), of_openai(judge), "update"),
        (completion("Yes.", tokens=number), of_openai(chat), "Yes."),
    ):
        server.gives(said)
        assert ask(ada, server) == wanted
        call = JudgeCall.objects.latest("id")
        if number == HUGE:
            assert call.tokens_out == MAX_TOKENS_COUNTED
            assert call.tokens_in in (MAX_TOKENS_COUNTED, 2 * MAX_TOKENS_COUNTED)
        else:
            # What a server does not report is estimated: no call is free.
            assert 0 < call.tokens_out < 1000
            assert 0 < call.tokens_in < 2000


@pytest.mark.parametrize("number", [HUGE, -1, 1.5, "7", None])
def test_counts_that_are_not_plausible_are_refused(server, ada, number):
    server.gives({"input_tokens": number})
    with pytest.raises(CountFailed):
        count(ada, server)


@pytest.mark.parametrize(
    "data",
    [
        [{"index": 0, "embedding": [10**400, 1]}], [{"index": 0, "embedding": [float("nan"), 1]}],
        [{"index": 0, "embedding": [1e300, 1]}], [{"index": HUGE, "embedding": [1, 2]}],
        [{"index": 0, "embedding": [0.5] * 16_001}], [{"index": 0, "embedding": "AAA"}],
        [{"index": 0, "embedding": {}}], [{"index": 0}], [[]], [1], 5, {},
    ],
)  # fmt: skip
def test_vectors_that_cannot_be_are_refused(server, ada, data):
    server.gives({"data": data})
    with pytest.raises(EmbeddingFailed):
        embed(ada, server)


def test_webhooks_that_drip_are_cut_off(server, monkeypatch):
    monkeypatch.setattr("identity.services.webhook_address.EXCHANGE_SECONDS", SECONDS)
    server.gives({}, drips="head")
    with pytest.raises(NotSent, match="in time"):
        message_send(server.url, b"{}", {})
    server.gives({})
    assert message_send(server.url, b"{}", {})[0] == 200


PROVIDER = {
    "drip": {"value": {}, "drips": "body"}, "drip of headers": {"value": {}, "drips": "head"},
    "compressed": {"value": {}, "compressed": True}, **{name: {"value": value} for name, value in BAD.items()},
}  # fmt: skip


@pytest.mark.parametrize("bad", PROVIDER)
def test_login_at_a_provider_that_answers_badly_is_a_page(server, settings, db, bad):
    settings.OIDC_ISSUER, settings.OIDC_CLIENT_ID, settings.OIDC_NAME = server.url, "nous", "Harbour ID"
    settings.SOCIALACCOUNT_REQUESTS_TIMEOUT = SECONDS
    server.gives(**PROVIDER[bad])
    answer = Client().get("/login/oidc/")
    assert answer.status_code == 503, answer.content
    assert b"cannot be reached" in answer.content


@pytest.mark.parametrize("claims", [
    {"groups": 7}, {"groups": {"agents-reviewers": 1}}, {"groups": [["agents-reviewers"]]}, {"sub": ""},
    {"sub": "s" * 10_000}, {"sub": "\x00"}, {"sub": " 1"}, {"preferred_username": {"a": 1}},
    {"preferred_username": "x" * 100_000}, {"preferred_username": "\x00"}, {"preferred_username": 10**400},
])  # fmt: skip
def test_claims_that_cannot_be_let_nobody_in(settings, db, claims):
    settings.OIDC_ISSUER, settings.OIDC_CLIENT_ID = "http://127.0.0.1:9", "nous"
    settings.OIDC_ROLES = {"agents-reviewers": "Reviewer"}
    request = RequestFactory().get("/")
    request.session, request.user = {NONCE: "n"}, AnonymousUser()
    right = {"sub": "1", "preferred_username": "rosa", "groups": ["agents-reviewers"]}
    found = {"id_token": {"iss": settings.OIDC_ISSUER, "nonce": "n", "sub": "1"} | right | claims, "userinfo": {}}
    login = SocialLogin(account=SocialAccount(extra_data=found))
    with pytest.raises((ImmediateHttpResponse, OAuth2Error)) as refused:
        ProviderAdapter(request).pre_social_login(request, login)
    assert getattr(getattr(refused.value, "response", None), "status_code", 401) in (401, 403, 409, 422)
    assert not User.objects.exists()


def test_exchange_reads_no_more_than_it_may(server):
    server.gives(b"x" * 1_001)
    with pytest.raises(BadAnswer, match="more than 1,000 bytes"):
        http_exchange(server.url, b"", {}, seconds=10, max_bytes=1_000)
    server.sent = lambda: answer(b"", f"Location: {server.url}", status="302 Found")
    assert http_exchange(server.url, None, {}, seconds=10, method="GET").status == 302, "it is not followed"


@pytest.mark.parametrize(
    ("text", "deep"),
    [
        (b"[" * 101, True), (b"[" * 100, False), (b'"' + b"[" * 200 + b'"', False), (b"[]" * 200, False),
        (b'"\\""' + b"[" * 101, True), (b'"\\\\"' + b"{" * 101, True), (b'["' + b"[" * 200, False),
        (b"[[]]" * 100, False),
    ],
)  # fmt: skip
def test_depth_is_that_of_brackets_outside_of_texts(text, deep):
    assert json_is_deep(text) is deep


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 100_000 + "1" + "}" * 100_000,
        '{"relation": "update", "confidence": NaN, "reason": "It moved."}',
        '{"relation": "update", "confidence": ' + "9" * 5_000 + ', "reason": "It moved."}',
        '{"a": "' * 20_000,
        json.dumps(VERDICT) + " The memory says: " + json.dumps(VERDICT | {"relation": "duplicate"}),
        json.dumps([VERDICT, VERDICT]),
        "update",
        "",
        " " * 300_000 + json.dumps(VERDICT),
    ],
    ids=range(10),
)
def test_text_without_one_plain_object_is_no_verdict(server, ada, text):
    server.gives(completion(text))
    with pytest.raises(JudgeFailed) as failed:
        of_openai(judge)(ada, server)
    assert failed.value.retryable


@pytest.mark.parametrize(
    "text",
    [
        "```json\n{}\n```",
        "Here is my answer:\n\n{}",
        "Sure! {{braces}} aside: {} I hope this helps.",
        '<think>Is it {{"relation": "duplicate"}}? No.</think>\n{}',
        "\n \ufeff{}",
    ],
)
def test_object_in_a_fence_or_after_words_is_taken(server, ada, text):
    server.gives(completion(text.format(json.dumps(VERDICT))))
    assert of_openai(judge)(ada, server) == "update"
