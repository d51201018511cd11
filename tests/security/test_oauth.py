"""OAuth attacked: other addresses, copied codes and refresh tokens, weak PKCE, other resources, people without the
right, forged forms, frames, floods. Each over the whole middleware stack."""

import base64
import hashlib
import json
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from html import unescape
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from django.db import connection, transaction
from django.test import Client

from identity.models import ApiToken, AuditEvent, OAuthClient, OAuthCode, OAuthRefreshToken
from identity.policy import oauth as policy
from identity.policy.permissions import APPROVING_PERMISSIONS, DEFAULT_SCOPES, PEOPLE_ONLY_PERMISSIONS
from identity.principal import Principal
from identity.services.oauth import (
    oauth_client_create,
    oauth_client_delete,
    oauth_client_register,
    oauth_code_claim,
    oauth_code_exchange,
    oauth_consent,
    oauth_purge,
    unconnected_clients_purge,
)
from identity.services.tokens import token_revoke
from nousweb.lib import clock
from nousweb.lib.errors import NotFound, TooMany
from tests.http import browser, signed_in

pytestmark = pytest.mark.django_db

ISSUER = "http://testserver"
RESOURCE = "http://testserver/mcp"
REDIRECT = "http://127.0.0.1:7777/callback"
VERIFIER = "v" * 20 + "-._~" + "X" * 40
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


def s256(verifier):
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")


@dataclass
class Flow:
    """A client on its way to a token; what it sends can be bent before each step."""

    registered: dict = field(default_factory=dict)
    asked: dict = field(default_factory=dict)

    def register(self, **metadata):
        body = {"client_name": "Desk", "redirect_uris": [REDIRECT], **metadata}
        answer = Client().post("/oauth/register", body, content_type="application/json")
        if answer.status_code == 201:
            self.registered = answer.json()
        return answer

    def address(self, **changed):
        """Where the browser is sent; None takes a parameter away."""
        if not self.registered:
            assert self.register().status_code == 201
        asked = {
            "response_type": "code",
            "client_id": self.registered["client_id"],
            "redirect_uri": self.registered["redirect_uris"][0],
            "state": "opaque",
            "code_challenge": s256(VERIFIER),
            "code_challenge_method": "S256",
            "resource": RESOURCE,
            "scope": " ".join(DEFAULT_SCOPES),
            **changed,
        }
        self.asked = {name: value for name, value in asked.items() if value is not None}
        return f"/oauth/authorize?{urlencode(self.asked)}"

    def consent(self, client, choice=(), **changed):
        """The page after a person has pressed Connect."""
        form = {"agent": "ada", "persona": "actor", "scopes": list(DEFAULT_SCOPES), "answer": "connect", **dict(choice)}
        return client.post(self.address(**changed), form)

    def code(self, client, choice=(), **changed):
        return returned(self.consent(client, choice, **changed))["code"]

    def token(self, **form):
        """The answer of the token endpoint; None takes a field away."""
        sent = {"client_id": self.registered["client_id"], "resource": RESOURCE, **form}
        return send("/oauth/token", **sent)

    def exchange(self, code, **changed):
        sent = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.asked["redirect_uri"],
            "code_verifier": VERIFIER,
            **changed,
        }
        return self.token(**sent)

    def refresh(self, secret, **changed):
        return self.token(grant_type="refresh_token", refresh_token=secret, **changed)

    def connected(self, client, choice=(), **changed):
        """Access and refresh token of the whole way."""
        answer = self.exchange(self.code(client, choice, **changed))
        assert answer.status_code == 200, answer.content
        return answer.json()


def send(path, **form):
    body = urlencode({name: value for name, value in form.items() if value is not None}, doseq=True)
    return Client().post(path, body, content_type="application/x-www-form-urlencoded")


def returned(page):
    """The query with which a page sends the browser back."""
    assert page.status_code == 200, page.content
    return {name: values[0] for name, values in parse_qs(urlsplit(return_uri(page)).query).items()}


def return_uri(page):
    source = page.content.decode()
    uri = unescape(source.partition('content="0;url=')[2].partition('"')[0])
    assert unescape(source.partition('class="btn btn-primary" href="')[2].partition('"')[0]) == uri
    return uri


def mcp(secret, message=None, **headers):
    named = {"Authorization": f"Bearer {secret}", **headers} if secret else headers
    return Client().post("/mcp", message or PING, content_type="application/json", headers=named)


def tool(secret, name, **arguments):
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
    return json.loads(mcp(secret, message).content)["result"]


@pytest.fixture
def flow(ada):
    return Flow()


@pytest.fixture
def admin(charlie):
    return browser(charlie)


def test_way_is_found_from_the_refusal():
    refused = mcp("")
    assert refused.status_code == 401
    challenge = refused["WWW-Authenticate"]
    assert challenge.startswith("Bearer ")
    assert "error=" not in challenge
    assert f'scope="{" ".join(DEFAULT_SCOPES)}"' in challenge
    assert 'error="invalid_token"' in mcp("nous_wrong")["WWW-Authenticate"]
    metadata_url = challenge.partition('resource_metadata="')[2].partition('"')[0]
    resource = Client().get(urlsplit(metadata_url).path).json()
    assert (resource["resource"], resource["authorization_servers"]) == (RESOURCE, [ISSUER])
    assert Client().get("/.well-known/oauth-protected-resource").json() == resource
    server = Client().get("/.well-known/oauth-authorization-server").json()
    assert server["issuer"] == ISSUER
    assert server["code_challenge_methods_supported"] == ["S256"]
    assert server["grant_types_supported"] == ["authorization_code", "refresh_token"]
    assert server["response_types_supported"] == ["code"]
    for name in ("authorization", "token", "registration", "revocation"):
        assert server[f"{name}_endpoint"].startswith(f"{ISSUER}/oauth/")


def test_host_that_is_not_ours_names_no_issuer():
    assert Client(headers={"Host": "evil.example"}).get("/.well-known/oauth-authorization-server").status_code == 400


def test_whole_way_gives_what_the_person_chose(flow, ada, admin, charlie):
    asked = "memory:read memory:rules openid"
    chosen = {"scopes": ["memory:read", "context:read"], "projects": "apollo", "global_memory": "read"}
    given = flow.connected(admin, chosen, scope=asked)
    assert given["token_type"] == "Bearer"
    assert sorted(given["scope"].split()) == ["context:read", "memory:read"]
    assert given["expires_in"] == 3600
    token = ApiToken.objects.get(agent=ada)
    assert (token.persona, token.scopes, token.projects) == ("actor", ["context:read", "memory:read"], ["apollo"])
    assert (token.name, token.resource, token.created_by) == ("Desk", RESOURCE, charlie.username)
    assert mcp(given["access_token"]).status_code == 200
    assert "scope" in tool(given["access_token"], "learn_fact", content="Tea is hot.")["content"][0]["text"]
    principal = Principal.of_token(token)
    assert not any(principal.may(right) for right in PEOPLE_ONLY_PERMISSIONS | APPROVING_PERMISSIONS)
    record = AuditEvent.objects.get(action="token.create")
    assert (record.author_name, record.channel, record.agent) == (charlie.username, "console", ada)
    assert record.after["client"] == "Desk"


def test_consent_shows_who_asks_and_what_for(flow, admin):
    page = admin.get(flow.address(scope="memory:read")).content.decode()
    assert "Connect “Desk”?" in page
    assert "nobody has checked its name" in page
    assert "this computer (127.0.0.1:7777)" in page
    boxes = [tag for tag in re.findall("<input[^>]*>", page) if " checked" in tag]
    assert [re.findall('value="([^"]*)"', tag) for tag in boxes] == [["memory:read"]]


def test_client_is_sent_back_with_state_and_issuer(flow, admin):
    page = flow.consent(admin)
    back = returned(page)
    assert (back["state"], back["iss"]) == ("opaque", ISSUER)
    assert return_uri(page).startswith(f"{REDIRECT}?")
    refused = flow.consent(admin, {"answer": "refuse"})
    assert returned(refused) | {"state": "", "iss": ""} == {
        "error": "access_denied", "state": "", "iss": "",
    } | {name: value for name, value in returned(refused).items() if name == "error_description"}  # fmt: skip
    assert not OAuthCode.objects.exclude(client__name="Desk").exists()
    assert OAuthCode.objects.count() == 1


def test_changes_over_a_connection_name_the_door(flow, admin, ada):
    secret = flow.connected(admin)["access_token"]
    result = tool(secret, "propose_identity_change", section="preferences", content="Tea.", reason="r")
    assert result["structuredContent"]["proposal"]["status"] == "pending"
    record = AuditEvent.objects.get(action="proposal.create")
    assert (record.channel, record.author_name) == ("mcp", "ada · Desk")


def test_secrets_are_kept_as_hashes_only(flow, admin, django_db_blocker):
    code = flow.code(admin)
    given = flow.exchange(code).json()
    rows = [*OAuthCode.objects.values(), *OAuthRefreshToken.objects.values(), *ApiToken.objects.values()]
    kept = repr(rows) + repr(list(AuditEvent.objects.values()))
    for secret in (code, given["access_token"], given["refresh_token"], VERIFIER):
        assert secret not in kept
    assert flow.exchange(code)["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    "uri",
    [
        "http://evil.example/callback",
        "http://127.0.0.1.evil.example/callback",
        "http://127.0.0.1:7777@evil.example/callback",
        "http://user:pw@127.0.0.1/callback",
        "http://127.0.0.1/callback#fragment",
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "myapp:/callback",
        "//evil.example/callback",
        "/callback",
        "",
        "https://",
        'https://a.example/"><script>',
        "https://a.example/ b",
        "https://a.example/\r\nSet-Cookie: a=b",
        "https://a.example/\\evil.example",
        "https://[bad",
        "http://localhost.evil.example/",
        "http://169.254.169.254/latest",
        "https://a.example/" + "x" * 500,
    ],
)
def test_address_that_must_not_be_redirected_to_is_not_registered(flow, uri):
    answer = flow.register(redirect_uris=[uri])
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_redirect_uri")
    assert not OAuthClient.objects.exists()


@pytest.mark.parametrize(
    "uri",
    ["https://a.example/cb?x=1", "http://localhost/cb", "http://[::1]:9/cb", "com.example.app:/cb", "cursor://a/cb"],
)
def test_address_of_a_program_is_registered_and_returned_to(flow, admin, uri):
    assert flow.register(redirect_uris=[uri]).status_code == 201
    page = flow.consent(admin)
    assert return_uri(page).startswith(uri)
    assert flow.exchange(returned(page)["code"]).status_code == 200


def test_other_address_is_never_returned_to(flow, admin, subtests):
    for asked in [
        "http://evil.example/callback",
        "http://127.0.0.1:7777/callback/../evil",
        "http://127.0.0.1:7777/callback?x=1",
        "http://127.0.0.1:7777/callback/",
        "http://127.0.0.1:7777/Callback",
        "http://localhost:7777/callback",
        "https://127.0.0.1:7777/callback",
        "http://127.0.0.1:7777@evil.example/callback",
        "http://127.0.0.1:7777#@evil.example/callback",
        "http://127.0.0.1:7777/callback%2f..",
        "HTTP://127.0.0.1:7777/callback",
    ]:
        with subtests.test(asked=asked):
            for page in (admin.get(flow.address(redirect_uri=asked)), flow.consent(admin, redirect_uri=asked)):
                assert page.status_code == 400
                assert "Location" not in page
                assert b"evil" not in page.content
                assert b"http-equiv" not in page.content
            assert not OAuthCode.objects.exists()


def test_port_of_the_own_machine_may_differ_and_nothing_else(flow, admin):
    asked = "http://127.0.0.1:50123/callback"
    page = flow.consent(admin, redirect_uri=asked)
    assert return_uri(page).startswith(asked)
    code = returned(page)["code"]
    assert flow.exchange(code, redirect_uri=REDIRECT).status_code == 400
    assert flow.exchange(code, redirect_uri=asked).status_code == 200
    flow.register(redirect_uris=["https://a.example/cb"])
    assert flow.consent(admin, redirect_uri="https://a.example:8443/cb").status_code == 400


def test_weaker_request_is_refused_on_a_page_that_sends_nobody_away(flow, admin, subtests):
    for changed, error in [
        ({"code_challenge": None, "code_challenge_method": None}, "invalid_request"),
        ({"code_challenge_method": "plain", "code_challenge": VERIFIER}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"code_challenge_method": "none"}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"code_challenge": "a" * 42 + "="}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": "none"}, "unauthorized_client"),
        ({"response_type": "code token"}, "unauthorized_client"),
        ({"response_type": None}, "invalid_request"),
        ({"response_mode": "fragment"}, "invalid_request"),
        ({"resource": "https://elsewhere.example/mcp"}, "invalid_target"),
        ({"resource": "http://testserver/api"}, "invalid_target"),
        ({"resource": "http://testserver"}, "invalid_target"),
    ]:
        with subtests.test(changed=changed, error=error):
            for page in (admin.get(flow.address(**changed)), flow.consent(admin, **changed)):
                assert page.status_code == 400
                assert b"http-equiv" not in page.content
                back = urlsplit(unescape(page.content.decode()).partition('<a class="btn" href="')[2].partition('"')[0])
                assert back._replace(query="").geturl() == REDIRECT
                told = parse_qs(back.query)
                assert told["error"] == [error]
                assert told["state"] == ["opaque"]
            assert not OAuthCode.objects.exists()


def test_parameter_given_twice_is_refused(flow, admin, subtests):
    for name in ["client_id", "redirect_uri", "state", "code_challenge", "resource", "scope"]:
        with subtests.test(name=name):
            address = flow.address()
            page = admin.get(f"{address}&{urlencode({name: flow.asked[name]})}")
            assert page.status_code == 400
            assert b"http-equiv" not in page.content


def test_address_that_makes_no_sense_is_a_page(admin, subtests):
    for query in ["", "client_id=none", "client_id=%00", "%", "client_id=a%ZZ", "a b", "client_id=" + "x" * 5000]:
        with subtests.test(query=query):
            assert admin.get(f"/oauth/authorize?{query}").status_code == 400


def test_values_of_a_request_are_not_attributes_of_the_server(flow, admin):
    """oauthlib reads parameters as attributes: none of those that decide comes from the address."""
    forged = {"user": "1", "scopes": "memory:rules", "consent_agent": "bruno", "consent_by": "x"}
    forged |= {"consent_rights": "x", "extra_credentials": "x", "request": "x", "redirect_uris": "https://a.example/"}
    given = flow.connected(admin, {"scopes": ["memory:read"]}, **forged)
    assert given["scope"] == "memory:read"
    again = flow.refresh(given["refresh_token"], scopes="memory:rules", scope="memory:rules")
    assert (again.status_code, again.json()["error"]) == (400, "invalid_scope")


@pytest.mark.parametrize("verifier", [None, "", VERIFIER[:-1], s256(VERIFIER), "y" * 64])
def test_code_without_its_verifier_is_worth_nothing(flow, admin, verifier):
    code = flow.code(admin)
    assert flow.exchange(code, code_verifier=verifier).json()["error"] in ("invalid_grant", "invalid_request")
    assert not ApiToken.objects.exists()


def test_code_comes_once_and_a_second_time_ends_the_connection(flow, admin):
    code = flow.code(admin)
    given = flow.exchange(code).json()
    assert mcp(given["access_token"]).status_code == 200
    assert flow.exchange(code).json()["error"] == "invalid_grant"
    assert mcp(given["access_token"]).status_code == 401
    assert flow.refresh(given["refresh_token"]).json()["error"] == "invalid_grant"
    record = AuditEvent.objects.get(action="token.revoke")
    assert (record.message, record.channel) == ("A code of Desk was used twice.", "mcp")


def test_code_is_its_clients_own_and_soon_over(flow, admin):
    code = flow.code(admin)
    thief = Flow()
    thief.register(client_name="Thief")
    thief.asked = flow.asked
    assert thief.exchange(code).json()["error"] == "invalid_grant"
    assert flow.exchange(code, client_id=None).json()["error"] == "invalid_client"
    assert flow.exchange(code, client_id="client_none").json()["error"] == "invalid_client"
    assert flow.exchange(code, resource="https://elsewhere.example/mcp").json()["error"] == "invalid_target"
    OAuthCode.objects.update(expires_at=clock.now() - timedelta(seconds=1))
    assert flow.exchange(code).json()["error"] == "invalid_grant"
    assert not ApiToken.objects.exists()


def test_token_is_for_mcp_of_this_address_only(flow, admin, api, settings):
    secret = flow.connected(admin)["access_token"]
    assert api.as_token(secret).get("/facts").status_code == 401
    assert api.as_token(secret).post("/context", {"session_id": "s", "input": "?"}).status_code == 401
    assert mcp(secret).status_code == 200
    settings.ALLOWED_HOSTS = ["testserver", "other.example"]
    assert mcp(secret, Host="other.example").status_code == 401
    assert "nous_" not in mcp(secret, Host="other.example")["WWW-Authenticate"]


def test_token_in_the_address_opens_nothing(flow, admin):
    secret = flow.connected(admin)["access_token"]
    assert Client().post(f"/mcp?access_token={secret}", PING, content_type="application/json").status_code == 401


def test_refresh_renews_and_the_old_secret_is_over(flow, admin, ada):
    first = flow.connected(admin)
    second = flow.refresh(first["refresh_token"]).json()
    assert second["scope"] == first["scope"]
    assert mcp(first["access_token"]).status_code == 401
    assert mcp(second["access_token"]).status_code == 200
    assert ApiToken.objects.filter(agent=ada).count() == 1
    assert flow.refresh(second["access_token"]).json()["error"] == "invalid_grant"


def test_stolen_refresh_token_ends_the_whole_family(flow, admin):
    first = flow.connected(admin)
    second = flow.refresh(first["refresh_token"]).json()
    third = flow.refresh(second["refresh_token"]).json()
    assert flow.refresh(first["refresh_token"]).json()["error"] == "invalid_grant"
    assert mcp(third["access_token"]).status_code == 401
    assert flow.refresh(third["refresh_token"]).json()["error"] == "invalid_grant"
    assert AuditEvent.objects.get(action="token.revoke").message == "A refresh token of Desk was used twice."


def test_refresh_token_is_its_clients_own(flow, admin):
    given = flow.connected(admin)
    thief = Flow()
    thief.register(client_name="Thief")
    assert thief.refresh(given["refresh_token"]).json()["error"] == "invalid_grant"
    assert flow.refresh(given["refresh_token"]).status_code == 200


def test_connection_ends_with_its_day_its_silence_and_its_hour(flow, admin, monkeypatch):
    tomorrow = clock.now().date() + timedelta(days=1)
    bounded = flow.connected(admin, {"expires_at": tomorrow.isoformat()})
    free = flow.connected(admin)
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now + timedelta(minutes=61))
    assert mcp(bounded["access_token"]).status_code == 401
    assert mcp(free["access_token"]).status_code == 401
    monkeypatch.setattr(clock, "now", lambda: now + timedelta(days=3))
    assert flow.refresh(bounded["refresh_token"]).json()["error"] == "invalid_grant"
    renewed = flow.refresh(free["refresh_token"]).json()
    assert mcp(renewed["access_token"]).status_code == 200
    monkeypatch.setattr(clock, "now", lambda: now + timedelta(days=34))
    assert flow.refresh(renewed["refresh_token"]).json()["error"] == "invalid_grant"
    assert {token.state for token in ApiToken.objects.all()} == {"expired"}
    assert oauth_purge() == 5
    assert not OAuthCode.objects.exists()


@pytest.mark.parametrize("which", ["access_token", "refresh_token"])
def test_client_ends_its_connection_and_no_other(flow, admin, which):
    given = flow.connected(admin)
    other = Flow()
    other.register(client_name="Other")
    answer = send("/oauth/revoke", client_id=other.registered["client_id"], token=given[which])
    assert answer.status_code == 200
    assert mcp(given["access_token"]).status_code == 200
    assert send("/oauth/revoke", client_id=flow.registered["client_id"], token="nous_nonsense").status_code == 200
    assert send("/oauth/revoke", client_id=flow.registered["client_id"], token=given[which]).status_code == 200
    assert mcp(given["access_token"]).status_code == 401
    assert flow.refresh(given["refresh_token"]).json()["error"] == "invalid_grant"


def test_person_revokes_like_any_token(flow, admin, ada, charlie):
    given = flow.connected(admin)
    token = ApiToken.objects.get(agent=ada)
    page = admin.get("/agents/ada/tokens/").content.decode()
    assert "Desk" in page
    assert "Connected over MCP" in page
    token_revoke(token=token, by=Principal.of_user(charlie))
    assert mcp(given["access_token"]).status_code == 401
    assert flow.refresh(given["refresh_token"]).json()["error"] == "invalid_grant"


def test_use_is_noted(flow, admin, ada):
    mcp(flow.connected(admin)["access_token"])
    assert ApiToken.objects.get(agent=ada).last_used_at is not None


@pytest.mark.parametrize("name", ["alice", "bob"])
def test_who_may_not_make_tokens_does_not_consent(request, flow, name):
    client = browser(request.getfixturevalue(name))
    assert client.get(flow.address()).status_code == 403
    assert flow.consent(client).status_code == 403
    assert not OAuthCode.objects.exists()
    # Refusing needs no right.
    assert returned(flow.consent(client, {"answer": "refuse"}))["error"] == "access_denied"


def test_who_lost_the_right_since_has_consented_in_vain(flow, admin, charlie):
    code = flow.code(admin)
    charlie.groups.clear()
    assert flow.exchange(code).json()["error"] == "invalid_grant"
    assert not ApiToken.objects.exists()


def test_nobody_is_asked_to_log_in_first_and_comes_back(flow):
    answer = Client().get(flow.address())
    assert answer.status_code == 302
    assert answer["Location"].startswith("/login/?next=/oauth/authorize")
    assert flow.consent(Client()).status_code == 302
    assert not OAuthCode.objects.exists()


def test_token_of_an_agent_is_nobody_to_the_consent(flow, actor_token):
    answer = Client().post(flow.address(), {"agent": "ada"}, headers={"Authorization": f"Bearer {actor_token}"})
    assert answer["Location"].startswith("/login/")


def test_forged_consent_is_refused(flow, charlie):
    client = signed_in(charlie)
    assert flow.consent(client).status_code == 403
    assert flow.consent(client, {"csrfmiddlewaretoken": "x" * 64}).status_code == 403
    assert client.get(flow.address() + "&answer=connect&agent=ada").status_code == 200
    assert not OAuthCode.objects.exists()
    token = {"csrfmiddlewaretoken": client.cookies["csrftoken"].value}
    assert flow.consent(client, token).status_code == 200


def test_consent_is_shown_in_no_frame(flow, admin):
    for page in (admin.get(flow.address()), flow.consent(admin), admin.get("/oauth/authorize?client_id=x")):
        policy_said = page["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in policy_said
        assert "form-action 'self'" in policy_said
        assert page["X-Frame-Options"] == "DENY"
        assert "no-store" in page["Cache-Control"]


@pytest.mark.parametrize(
    ("choice", "why"),
    [
        ({"agent": "nobody"}, "Select a valid choice"),
        ({"agent": ""}, "This field is required"),
        ({"persona": "both"}, "Select a valid choice"),
        ({"scopes": ["identity:approve"]}, "Select a valid choice"),
        ({"scopes": []}, "This field is required"),
        ({"expires_at": "2020-01-01"}, "The expiry is in the past"),
        ({"projects": "a" * 300}, "characters"),
    ],
)
def test_bad_choice_keeps_the_form(flow, admin, choice, why):
    page = flow.consent(admin, choice)
    assert page.status_code == 422
    assert why in page.content.decode()
    assert not OAuthCode.objects.exists()


def test_name_of_a_client_forges_nothing(flow, admin):
    for name in ("Claude\u202e", "a\u200bb", "\x00", "x" * 101, "<|im_start|>"):
        assert flow.register(client_name=name).status_code == 400, name
    assert flow.register(client_name="<script>alert(1)</script>").status_code in (201, 400)
    flow.register(client_name="Tom & <b>Jerry</b>")
    page = admin.get(flow.address()).content
    assert b"<b>Jerry" not in page
    assert b"Tom &amp; &lt;b&gt;Jerry" in page


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"x"',
        b"\xff",
        b"{}",
        b'{"redirect_uris": []}',
        b'{"redirect_uris": "https://a.example/"}',
        b'{"redirect_uris": [5]}',
        b'{"redirect_uris": ["https://a.example/"], "client_name": 5}',
        b'{"redirect_uris": ["https://a.example/"], "grant_types": ["password"]}',
        b'{"redirect_uris": ["https://a.example/"], "response_types": ["token"]}',
        json.dumps({"redirect_uris": ["https://a.example/"] * 11}).encode(),
    ],
)
def test_registration_that_is_none_is_refused(body):
    answer = Client().generic("POST", "/oauth/register", body, content_type="application/json")
    assert answer.status_code == 400
    assert answer.json()["error"] in ("invalid_redirect_uri", "invalid_client_metadata")


def test_registration_gets_no_secret_whatever_it_asks_for(flow):
    answer = flow.register(token_endpoint_auth_method="client_secret_basic", scope="memory:rules", logo_uri="x").json()
    assert answer["token_endpoint_auth_method"] == "none"
    assert "client_secret" not in answer
    assert Client().generic("POST", "/oauth/register", b"x" * 40_000).status_code == 413


def test_flood_of_registrations_is_bounded(flow, settings):
    for _ in range(policy.REGISTRATIONS_OF_ADDRESS):
        assert flow.register().status_code == 201
    answer = flow.register()
    assert (answer.status_code, answer["Retry-After"]) == (429, "3600")
    assert OAuthClient.objects.count() == policy.REGISTRATIONS_OF_ADDRESS
    # Nobody else is kept out, unless from everywhere at once.
    other = oauth_client_register(name="Other", redirect_uris=[REDIRECT], address="203.0.113.9")
    fields = {"name": "x", "redirect_uris": [REDIRECT], "source": "registered", "created_by": "x"}
    OAuthClient.objects.bulk_create(
        OAuthClient(client_id=f"c{number}", registered_from=f"198.51.100.{number}", **fields)
        for number in range(policy.REGISTRATIONS_WAITING)
    )
    with pytest.raises(TooMany):
        oauth_client_register(name="Other", redirect_uris=[REDIRECT], address="203.0.113.10")
    OAuthClient.objects.exclude(pk=other.pk).update(created_at=clock.now() - timedelta(days=2))
    assert oauth_client_register(name="Other", redirect_uris=[REDIRECT], address="203.0.113.10").pk
    assert OAuthClient.objects.count() == 2


def test_connected_client_is_not_forgotten(flow, admin):
    flow.connected(admin)
    OAuthClient.objects.update(created_at=clock.now() - timedelta(days=400))
    assert unconnected_clients_purge() == 0
    assert OAuthClient.objects.get().registered_from == ""


def test_registration_can_be_closed(flow, settings, charlie):
    settings.OAUTH_REGISTRATION = False
    assert flow.register().status_code == 403
    assert "registration_endpoint" not in Client().get("/.well-known/oauth-authorization-server").json()


def test_client_that_a_person_made_connects_and_goes_with_all_it_holds(flow, admin, ada):
    made = admin.post("/clients/", {"name": "Agent desk", "redirect_uris": REDIRECT}, follow=True)
    assert b"Agent desk" in made.content
    client = OAuthClient.objects.get()
    assert AuditEvent.objects.get(action="oauth_client.create").channel == "console"
    flow.registered = {"client_id": client.client_id, "redirect_uris": client.redirect_uris}
    assert b"nobody has checked its name" not in admin.get(flow.address()).content
    secret = flow.connected(admin)["access_token"]
    assert b"Ada, Actor" in admin.get(f"/clients/{client.pk}/delete/").content
    admin.post(f"/clients/{client.pk}/delete/")
    assert mcp(secret).status_code == 401
    assert not OAuthClient.objects.exists()
    assert set(AuditEvent.objects.values_list("action", flat=True)) >= {"token.revoke", "oauth_client.delete"}
    bad = admin.post("/clients/", {"name": "x", "redirect_uris": "javascript:alert(1)"})
    assert bad.status_code == 422


@pytest.mark.parametrize("path", ["/oauth/token", "/oauth/revoke"])
def test_endpoints_of_programs_refuse_what_is_no_form(path, flow):
    flow.register()
    assert Client().get(path).status_code == 405
    assert Client().post(path, {"a": 1}, content_type="application/json").status_code == 400
    for body in (b"", b"%", b"a=%00", b"\xff=1", b"grant_type=password&username=a", b"x" * 20_000):
        answer = Client().generic("POST", path, body, content_type="application/x-www-form-urlencoded")
        assert answer.status_code in (400, 401, 413), body
        assert answer.json()["error"]
    assert send(f"{path}?client_id=x", token="x").status_code == 400


@pytest.mark.parametrize("grant", ["password", "client_credentials", "implicit", "", None])
def test_other_grants_are_not_served(flow, grant):
    flow.register()
    assert flow.token(grant_type=grant, username="charlie", password="x").status_code in (400, 401)
    assert not ApiToken.objects.exists()


def test_erasing_the_agent_takes_its_connections(flow, admin, ada, charlie):
    from memory.services.erasure import agent_erase

    secret = flow.connected(admin)["access_token"]
    flow.code(admin)
    agent_erase(agent=ada, by=Principal.of_user(charlie), reason="Over.")
    assert mcp(secret).status_code == 401
    assert not OAuthCode.objects.exists()
    assert not OAuthRefreshToken.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_client_deleted_while_it_takes_a_token_leaves_none(transactional_db, ada, charlie):
    by = Principal.of_user(charlie)
    client = oauth_client_create(name="Desk", redirect_uris=[REDIRECT], by=by)
    rights = {"persona": "actor", "scopes": list(DEFAULT_SCOPES), "projects": (), "global_memory": "read"}
    oauth_consent(
        code="c",
        client=client,
        agent=ada,
        rights={**rights, "expires_at": None},
        redirect_uri=REDIRECT,
        code_challenge=s256(VERIFIER),
        resource=RESOURCE,
        by=by,
    )
    same, made = OAuthClient.objects.get(), threading.Event()

    def exchange():
        try:
            with transaction.atomic():
                oauth_code_exchange(code=oauth_code_claim(code="c", client=client))
                made.set()
                time.sleep(0.5)
        finally:
            connection.close()

    def delete():
        try:
            made.wait(30)
            return oauth_client_delete(client=client, by=by)
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        taken, deleted = pool.submit(exchange), pool.submit(delete)
        taken.result()
        revoked = deleted.result()
    assert ApiToken.objects.get().revoked_at is not None
    assert revoked == 1
    assert not OAuthClient.objects.exists()
    with pytest.raises(NotFound):
        oauth_client_delete(client=same, by=by)
