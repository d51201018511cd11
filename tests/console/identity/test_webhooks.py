"""The pages of an agent's webhooks."""

import pytest
from django.urls import reverse

from identity.models import AuditEvent, Webhook, WebhookDelivery
from identity.principal import Principal
from identity.services.webhooks import webhook_create, webhook_secrets
from tests.http import signed_in

ADDRESS = "https://example.org/hook"


@pytest.fixture
def browser(charlie):
    return signed_in(charlie)


@pytest.fixture
def webhook(ada, charlie):
    return webhook_create(agent=ada, url=ADDRESS, scopes=["memory:read"], by=Principal.of_user(charlie))[0]


def post(browser, name, *args, **values):
    values["csrfmiddlewaretoken"] = browser.cookies["csrftoken"].value
    return browser.post(reverse(name, args=args), values)


def test_webhook_made_shows_its_secret_once(browser, ada):
    empty = browser.get(reverse("agent_webhooks", args=["ada"])).content.decode()
    assert "No webhooks yet" in empty
    given = {"url": ADDRESS, "scopes": ["memory:read"], "kinds": ["fact.learned"], "persona": "actor"}
    answer = post(browser, "agent_webhooks", "ada", **given)
    made = Webhook.objects.get()
    [secret] = webhook_secrets(made)
    assert secret in answer.content.decode()
    assert (made.kinds, made.created_by) == (["fact.learned"], "charlie")
    for page in (reverse("agent_webhooks", args=["ada"]), made.get_absolute_url()):
        assert secret not in browser.get(page).content.decode()


def test_webhook_form_keeps_what_was_typed(browser, ada):
    answer = post(browser, "agent_webhooks", "ada", url="http://10.0.0.1/", scopes=["memory:read"], persona="actor")
    assert answer.status_code == 422
    assert "private network" in answer.content.decode()
    assert "http://10.0.0.1/" in answer.content.decode()


def test_webhook_paused_and_resumed(browser, webhook):
    for action, state in (("pause", "paused"), ("resume", "active")):
        assert post(browser, "agent_webhook", "ada", webhook.pk, action=action).status_code == 302
        webhook.refresh_from_db()
        assert webhook.state == state


def test_webhook_messages_listed_filtered_and_sent_again(browser, webhook):
    for number, status in enumerate(["delivered", "dead", "dead"], 1):
        WebhookDelivery.objects.create(
            agent=webhook.agent,
            webhook=webhook,
            number=number,
            changes=[1],
            kinds=["fact.learned"],
            status=status,
            answer_status=500,
        )
    url = webhook.get_absolute_url()
    assert browser.get(url).content.decode().count('name="delivery"') == 3
    assert browser.get(f"{url}?status=dead").content.decode().count('name="delivery"') == 2
    assert "No messages" in browser.get(f"{url}?status=waiting").content.decode()
    delivered = WebhookDelivery.objects.get(number=1)
    post(browser, "agent_webhook", "ada", webhook.pk, action="replay", delivery=str(delivered.pk))
    assert WebhookDelivery.objects.filter(status="waiting").count() == 1
    post(browser, "agent_webhook", "ada", webhook.pk, action="replay")
    assert WebhookDelivery.objects.filter(status="waiting").count() == 3
    assert post(browser, "agent_webhook", "ada", webhook.pk, action="replay", delivery="x").status_code == 404


def test_webhook_deleted_after_asking(browser, webhook):
    page = browser.get(reverse("agent_webhook_delete", args=["ada", webhook.pk])).content.decode()
    assert ADDRESS in page
    assert post(browser, "agent_webhook_delete", "ada", webhook.pk).status_code == 302
    assert not Webhook.objects.exists()


def test_webhook_edited(browser, webhook):
    url = reverse("agent_webhook_edit", args=["ada", webhook.pk])
    assert f'value="{ADDRESS}"' in browser.get(url).content.decode()
    given = {"url": "https://example.org/new", "scopes": ["identity:read"], "kinds": ["agent.changed"], "bodies": "on"}
    assert post(browser, "agent_webhook_edit", "ada", webhook.pk, **given).status_code == 302
    secret = webhook.secret
    webhook.refresh_from_db()
    assert (webhook.url, webhook.scopes, webhook.kinds) == (given["url"], given["scopes"], given["kinds"])
    assert (webhook.bodies, webhook.state, webhook.secret) == (True, "paused", secret)
    record = AuditEvent.objects.get(action="webhook.update")
    assert (record.author_name, record.before["url"], record.after["state"]) == ("charlie", ADDRESS, "paused")
    post(browser, "agent_webhook_edit", "ada", webhook.pk, **given, active="on")
    webhook.refresh_from_db()
    assert webhook.state == "active"


def test_webhook_edit_keeps_what_was_typed(browser, webhook):
    answer = post(browser, "agent_webhook_edit", "ada", webhook.pk, url="http://10.0.0.1/", scopes=["memory:read"])
    assert answer.status_code == 422
    assert "private network" in answer.content.decode()
    assert "http://10.0.0.1/" in answer.content.decode()
    webhook.refresh_from_db()
    assert webhook.url == ADDRESS


def test_webhook_secret_rotated_and_shown_once(browser, webhook):
    before = webhook_secrets(webhook)
    page = post(browser, "agent_webhook_edit", "ada", webhook.pk, action="rotate").content.decode()
    webhook.refresh_from_db()
    now, former = webhook_secrets(webhook)
    assert [former] == before != [now]
    assert now in page
    assert (webhook.url, webhook.state) == (ADDRESS, "active")
    for name in ("agent_webhook_edit", "agent_webhook"):
        assert now not in browser.get(reverse(name, args=["ada", webhook.pk])).content.decode()
    record = AuditEvent.objects.get(action="webhook.update")
    assert record.after == {"secret": "changed"}


@pytest.mark.parametrize("who", ["alice", "bob"])
def test_webhook_edit_is_for_administrators(request, webhook, who):
    browser = signed_in(request.getfixturevalue(who))
    assert browser.get(reverse("agent_webhook_edit", args=["ada", webhook.pk])).status_code == 403


def test_webhook_message_that_is_tried_again(browser, webhook):
    waiting = WebhookDelivery(agent=webhook.agent, webhook=webhook, number=1, changes=[1], kinds=["fact.learned"])
    waiting.save()
    assert "Next try" not in browser.get(webhook.get_absolute_url()).content.decode()
    waiting.attempts, waiting.error = 3, "The host name cannot be resolved."
    waiting.save()
    page = browser.get(webhook.get_absolute_url()).content.decode()
    assert "Next try" in page
    assert "Retried" in page
    assert 'aria-label="Try now: message 1"' in page
    assert waiting.error in page
