"""The drill of a change of secrets: the installation's, a token's and a webhook's. Nothing stands still meanwhile, and
the former secret opens nothing in the end.
"""

import io
import os
import re
import signal
import subprocess
import sys
from datetime import timedelta
from urllib.parse import urlsplit

import pyotp
import pytest
from django.core.management import CommandError, call_command
from django.core.signing import BadSignature
from django.db import connection
from django.test import Client
from django_q.brokers import get_broker
from django_q.conf import Conf
from django_q.models import OrmQ
from django_q.signing import SignedPackage
from django_q.tasks import async_task

from identity.models import ApiToken, AuditEvent, Webhook, WebhookDelivery
from identity.principal import Principal
from identity.services.encrypted_secrets import encrypted_secrets_count, secret_encrypt, sessions_count
from identity.services.people import sessions_of
from identity.services.proposals import identity_propose
from identity.services.second_factors import second_factor_enrol, second_factor_secret, second_factor_verify
from identity.services.tokens import token_authenticate, token_create, token_revoke, token_rotate
from identity.services.versions import is_self_approval
from identity.services.webhook_delivery import deliveries_purge, headers_of, webhook_signature
from identity.services.webhooks import webhook_create, webhook_secrets, webhook_update
from nousweb.lib import clock
from nousweb.lib.errors import Conflict, Invalid, NotAllowed
from nousweb.lib.installation import former_secrets, load_secret
from nousweb.queue import allowed_only
from tests.factories import PASSWORD
from tests.http import browser
from tests.product import PROJECT, tied, until

OLD, NEW = "old-" + "o" * 60, "new-" + "n" * 60


@pytest.fixture
def use_secret(settings, monkeypatch):
    """Go on as a product that was started again with other secrets."""

    def use(secret: str, *former: str) -> None:
        settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = secret, list(former)
        monkeypatch.setattr(Conf, "SECRET_KEY", secret)

    return use


def said_by(*arguments: str) -> str:
    said = io.StringIO()
    call_command(*arguments, stdout=said)
    return said.getvalue()


@pytest.fixture
def admin(charlie):
    return Principal.of_user(charlie)


def password_given(person):
    client = Client()
    assert client.post("/login/", {"username": person.username, "password": PASSWORD}).status_code == 302
    return client


def enrolled(person):
    app = second_factor_secret()
    with clock.at(clock.now() - timedelta(minutes=5)):
        code = pyotp.TOTP(app).at(clock.now())
        second_factor_enrol(person=person, secret=app, code=code, by=Principal.of_user(person))
    return pyotp.TOTP(app)


def code_taken(person, code):
    try:
        second_factor_verify(person=person, code=code, by=Principal.of_user(person))
    except Invalid:
        return False
    return True


def test_installations_secret_is_changed_and_nothing_is_lost(ada, bob, charlie, admin, use_secret):
    use_secret(OLD)
    app = enrolled(bob)
    webhook, signing = webhook_create(agent=ada, url="https://example.org/hook", scopes=["memory:read"], by=admin)
    assert signing not in Webhook.objects.get().secret
    # One of the time when they were not encrypted.
    plain = Webhook.objects.create(agent=ada, url="https://example.org/b", secret="whsec_of_old_times", scopes=[])
    token, secret = token_create(agent=ada, persona="actor", name="laptop", by=admin)
    away, back = (password_given(charlie) for _ in range(2))
    async_task("memory.tasks.embed_pending")
    payload = OrmQ.objects.latest("pk").payload

    use_secret(NEW, OLD)
    assert "2 by a former secret, 1 by none yet" in said_by("secret", "status")
    assert sessions_count() == {"former": 2}
    assert back.get("/agents/").status_code == 200
    assert sessions_count() == {"former": 1, "present": 1}
    assert set(sessions_of(charlie).values_list("session_key", flat=True)) >= {back.session.session_key}
    assert token_authenticate(secret) == token
    assert webhook_secrets(Webhook.objects.get(pk=webhook.pk)) == [signing]
    [(_, resigned)] = allowed_only(get_broker(), [(1, payload)])
    with pytest.raises(CommandError, match="2 are still encrypted by a former secret"):
        call_command("secret", "forget")
    assert "Encrypted by the secret of now: 3." in said_by("secret", "rewrite")
    assert "Encrypted by the secret of now: 0." in said_by("secret", "rewrite")
    records = AuditEvent.objects.filter(action="secret.rewrite")
    assert {(row.object_label, row.author_name) for row in records} == {
        (name, "command line") for name in ("bob", str(webhook), str(plain))
    }

    use_secret(NEW)
    assert encrypted_secrets_count() == {"present": 3}
    assert [webhook_secrets(Webhook.objects.get(pk=one.pk)) for one in (webhook, plain)] == [
        [signing], ["whsec_of_old_times"],
    ]  # fmt: skip
    assert code_taken(bob, app.at(clock.now()))
    assert token_authenticate(secret) == token
    assert SignedPackage.loads(resigned)["func"] == "memory.tasks.embed_pending"
    assert back.get("/agents/").status_code == 200
    assert away.get("/agents/").status_code == 302, "it is signed by the former secret alone"
    with pytest.raises(BadSignature):
        SignedPackage.loads(payload)

    use_secret(OLD)
    assert encrypted_secrets_count() == {"lost": 3}
    assert back.get("/agents/").status_code == 302
    assert not code_taken(bob, app.at(clock.now() + timedelta(seconds=30)))
    with pytest.raises(CommandError, match="3 are encrypted by a secret that is not known here"):
        call_command("secret", "rewrite")


REWRITE = """
import os, django
os.environ["DJANGO_SETTINGS_MODULE"] = "nousweb.settings"
django.setup()
from django.core.management import call_command
call_command("secret", "rewrite")
"""


@pytest.mark.django_db(transaction=True)
def test_rewriting_that_is_killed_goes_on_where_it_was(ada, use_secret, tmp_path):
    use_secret(OLD)
    kept = {f"https://example.org/{number}": f"whsec_{number:020}" for number in range(400)}
    Webhook.objects.bulk_create(
        Webhook(agent=ada, url=url, secret=secret_encrypt(signing, "webhook"), scopes=[])
        for url, signing in kept.items()
    )
    use_secret(NEW, OLD)
    url = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
    variables = {"DATABASE_URL": url, "NOUS_SECRET_KEY": NEW, "NOUS_SECRET_KEY_FALLBACKS": OLD,
                 "NOUS_DATA_DIR": str(tmp_path)}  # fmt: skip
    program = subprocess.Popen(tied(sys.executable, "-c", REWRITE), cwd=PROJECT, env=os.environ | variables)
    records = AuditEvent.objects.filter(action="secret.rewrite")
    until("some are rewritten", records.exists)
    program.send_signal(signal.SIGKILL)
    program.wait()
    done = records.count()
    counted = encrypted_secrets_count()
    assert counted["present"] == done < 400
    assert counted["present"] + counted["former"] == 400
    assert f"Encrypted by the secret of now: {400 - done}." in said_by("secret", "rewrite")
    use_secret(NEW)
    assert {row.url: webhook_secrets(row) for row in Webhook.objects.all()} == {
        url: [signing] for url, signing in kept.items()
    }
    assert records.count() == 400


def test_secret_of_the_data_folder_is_changed_and_forgotten(db, settings, tmp_path, monkeypatch):
    monkeypatch.delenv("NOUS_SECRET_KEY", raising=False)
    settings.DATA_DIR = tmp_path
    path = tmp_path / "secret_key"
    first = load_secret(path)
    call_command("secret", "new", stdout=io.StringIO())
    second = load_secret(path)
    call_command("secret", "new", stdout=io.StringIO())
    assert former_secrets(path) == [second, first]
    assert load_secret(path) not in (first, second)
    assert {(each.name, each.stat().st_mode & 0o777) for each in tmp_path.iterdir()} == {
        ("secret_key", 0o600), ("secret_key.former", 0o600),
    }  # fmt: skip
    call_command("secret", "forget", stdout=io.StringIO())
    assert former_secrets(path) == []
    monkeypatch.setenv("NOUS_SECRET_KEY", "k" * 60)
    with pytest.raises(CommandError, match="NOUS_SECRET_KEY_FALLBACKS"):
        call_command("secret", "new")


def test_token_has_two_secrets_for_a_time(ada, bob, admin, system, api):
    token, first = token_create(agent=ada, persona="actor", name="laptop", by=system)
    page = browser(admin.user).post(f"/agents/ada/tokens/{token.pk}/rotate/", {"grace": "24"})
    [second] = set(re.findall(r"nous_[\w-]{43}", page.content.decode()))
    assert second not in str(list(ApiToken.objects.values()) + list(AuditEvent.objects.values()))
    for secret in (first, second):
        assert api.as_token(secret).get("/facts").status_code == 200
    assert "previous secret until" in browser(admin.user).get("/agents/ada/tokens/").content.decode()
    token.refresh_from_db()
    assert timedelta(hours=23) < token.former_until - clock.now() <= timedelta(hours=24)
    ApiToken.objects.update(former_until=clock.now())
    assert token_authenticate(first) is None
    assert token_authenticate(second) == token
    token.refresh_from_db()
    third = token_rotate(token=token, grace=timedelta(), by=admin)
    assert [token_authenticate(one) for one in (first, second, third)] == [None, None, token]
    assert [row.after["prefix"] for row in AuditEvent.objects.filter(action="token.rotate").order_by("pk")] == [
        second[:11], third[:11],
    ]  # fmt: skip
    with pytest.raises(Invalid):
        token_rotate(token=token, grace=timedelta(days=8), by=admin)
    with pytest.raises(NotAllowed):
        token_rotate(token=token, grace=timedelta(), by=Principal.of_user(bob))
    fourth = token_rotate(token=token, grace=timedelta(days=1), by=admin)
    token_revoke(token=token, by=admin)
    assert [token_authenticate(one) for one in (third, fourth)] == [None, None]
    with pytest.raises(Conflict):
        token_rotate(token=token, grace=timedelta(), by=admin)


def test_who_was_shown_a_secret_of_a_token_does_not_approve_what_it_proposed(ada, charlie, admin, system, settings):
    token, _ = token_create(agent=ada, persona="actor", name="laptop", by=system)
    proposed = identity_propose(agent=ada, section="character", content="Kind.", by=Principal.of_token(token)).proposal
    settings.FOUR_EYES = True
    assert not is_self_approval(proposed, admin)
    token_rotate(token=token, grace=timedelta(), by=admin)
    assert is_self_approval(proposed, admin)


def test_webhook_signs_by_both_secrets_for_a_day(ada, admin):
    webhook, first = webhook_create(agent=ada, url="https://example.org/hook", scopes=["memory:read"], by=admin)
    webhook = webhook_update(webhook=webhook, secret="whsec_the_second_one", by=admin)
    delivery = WebhookDelivery(webhook=webhook, agent=ada, number=1)

    def signatures():
        moment, *signed = headers_of(webhook, delivery, b"{}")["X-Nous-Signature"].split(",")
        return int(moment.removeprefix("t=")), signed

    moment, signed = signatures()
    assert signed == [f"v1={webhook_signature(one, moment, b'{}')}" for one in ("whsec_the_second_one", first)]
    assert timedelta(hours=23) < webhook.former_secret_until - clock.now() <= timedelta(hours=24)
    webhook.former_secret_until = clock.now()
    webhook.save()
    moment, signed = signatures()
    assert signed == [f"v1={webhook_signature('whsec_the_second_one', moment, b'{}')}"]
    deliveries_purge()
    assert Webhook.objects.get().former_secret == ""
