"""Every page of the console, over a store full of characters that do not show: each is marked, none is printed raw."""

import re
from collections import Counter, deque
from html import unescape
from urllib.parse import urlsplit

import pytest
from django.test import Client
from django.urls import Resolver404, resolve, reverse

from identity.models import AuditEvent, ChangeProposal
from identity.principal import Principal
from identity.services.proposals import identity_propose
from memory.services.censors import censor_create
from memory.services.decisions import decision_record
from memory.services.episodes import episode_close, episode_open
from memory.services.facts import fact_learn
from memory.services.procedures import procedure_create
from memory.services.working_memory import working_set
from nousweb.console.template_loader import visible_source
from nousweb.lib.characters import hidden_indices
from tests.http import signed_in

PER_PAGE = 3
"""So many pages of each address pattern are read."""
# Form values and addresses have to stay what they are; nobody reads there what a prompt says.
UNREAD = re.compile(
    r"<textarea\b.*?</textarea>|\s(?:value|href|action|formaction|hx-[\w-]+|datetime|id|data-back)=\"[^\"]*\"",
    re.DOTALL,
)
ELEMENTS_AS_WORDS = re.compile(r"<title>[^<]*<(?!/title>)|=\"[^\"<>]*<(?:bdi|span)\b|<option[^>]*>[^<]*<(?:bdi|span)")


def hostile(word: str) -> str:
    return f"{word}\u202e \u2067\u2066x\u2069\u2069 a\u200bb\U000e0041 \u05d0\u05d1"


@pytest.fixture
def hostile_store(ada, actor, system, bob, api, actor_token):
    """Something of everything that the console shows, with hidden characters wherever text may stand."""
    for category in ("person", "technical"):
        fact_learn(
            agent=ada, content=hostile(f"Tim likes {category}"), subject=hostile("Tim"), category=category,
            tags=[hostile("tag")], by=system,
        )  # fmt: skip
    fact_learn(agent=ada, content=hostile("Tim dislikes it"), subject=hostile("Tim"), category="person", by=actor)
    episode = episode_open(agent=ada, title=hostile("Outage"), by=system)
    episode_close(episode=episode, summary=hostile("It went down"), outcome="success", by=system)
    decision_record(agent=ada, description=hostile("Use Postgres"), confidence=0.8, by=system)
    procedure_create(agent=ada, name=hostile("Debug"), description=hostile("Look at it"), by=system)
    censor_create(agent=ada, pattern="secret", severity="warn", reason=hostile("Why"), by=Principal.of_user(bob))
    working_set(agent=ada, session_id="s-1", task=hostile("Build"), by=system)
    wished = identity_propose(
        agent=ada, section="values", content="x", reason=hostile("Reason"), by=actor, wait=True
    ).proposal
    ChangeProposal.objects.filter(pk=wished.pk).update(content=hostile("Truth"))
    caller = api.as_token(actor_token)
    event = {"loop_id": "loop-1", "kind": "user_input", "content": hostile("Hello"), "metadata": {"m": hostile("n")}}
    answer = caller.post("/events", {"events": [event]})
    assert answer.status_code == 201, answer.content
    asked = {"session_id": "s-1", "input": hostile("Tim likes what?")}
    assert caller.post("/context", asked).status_code == 200
    return ada


def pages(client: Client):
    """The console's pages as a person finds them by following links, a few of each sort."""
    waiting = deque([reverse("home"), f"{reverse('agent_search', args=['ada'])}?q=Tim+likes"])
    seen: set[str] = set()
    read: Counter[str] = Counter()
    while waiting:
        address = waiting.popleft()
        path = urlsplit(address).path
        try:
            name = resolve(path).view_name
        except Resolver404:
            continue
        if address in seen or read[name] >= PER_PAGE or path.startswith(("/static", "/logout", "/admin")):
            continue
        seen.add(address)
        read[name] += 1
        answer = client.get(address)
        if answer.status_code != 200 or "text/html" not in answer["Content-Type"]:
            continue
        html = answer.content.decode()
        yield name, address, html
        for link in re.findall(r"href=\"([^\"#]+)", html):
            link = unescape(link)
            waiting.append(path + link if link.startswith("?") else link)


def test_pages_print_no_invisible_character(hostile_store, charlie):
    read, marked = Counter(), 0
    for name, address, html in pages(signed_in(charlie)):
        read[name] += 1
        visible = UNREAD.sub("", html)
        raw = [visible[max(index - 60, 0) : index + 20] for index in hidden_indices(visible)]
        assert raw == [], (address, raw[:3])
        assert not ELEMENTS_AS_WORDS.search(html), (address, ELEMENTS_AS_WORDS.search(html))
        marked += html.count('class="char-mark"')
    assert len(read) >= 30, sorted(read)
    assert marked >= 100
    assert AuditEvent.objects.exists()


@pytest.mark.parametrize(
    ("source", "loaded"),
    [
        ("<p>{{ x }}</p>", "<p>{{ x|shown }}</p>"),
        ('<a href="{{ x }}">{{ x|truncatechars:9 }}</a>', '<a href="{{ x }}">{{ x|truncatechars:9|shown }}</a>'),
        ('<b title="to {{ x }}">{{ x }}</b>', '<b title="to {{ x|shown_plain }}">{{ x|shown }}</b>'),
        ("<title>{{ x }}</title>{{ x }}", "<title>{{ x|shown_plain }}</title>{{ x|shown }}"),
        ('<option value="{{ x }}">{{ x }}</option>', '<option value="{{ x }}">{{ x|shown_plain }}</option>'),
        ("<textarea>{{ x }}</textarea>", "<textarea>{{ x }}</textarea>"),
        ("<svg><text>{{ x }}</text></svg>{{ x }}", "<svg><text>{{ x|shown_plain }}</text></svg>{{ x|shown }}"),
        (
            "{% block title %}{{ x }}{% endblock %}{{ x }}",
            "{% block title %}{{ x|shown_plain }}{% endblock %}{{ x|shown }}",
        ),
        ('<p{% if a > b %} id="{{ x }}"{% endif %}>{{ x }}', '<p{% if a > b %} id="{{ x }}"{% endif %}>{{ x|shown }}'),
        ("{{ x|marked }}{# {{ x }} #}", "{{ x|marked }}{# {{ x }} #}"),
        ('<i id=">" alt="{{ x }}">{{ x }}</i>', '<i id=">" alt="{{ x|shown_plain }}">{{ x|shown }}</i>'),
    ],
)
def test_templates_cannot_forget_the_marks(source, loaded):
    assert visible_source(source) == loaded
