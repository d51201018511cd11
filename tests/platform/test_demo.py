"""The demo: loaded through services and API, rich, and only into an empty database."""

import pytest
from django.core.management import CommandError, call_command

from context.models import ContextRun, MemoryUsage
from identity.models import Agent, ChangeProposal, DemoTour, IdentityVersion
from identity.principal import Principal
from memory.models import Censor, Decision, Episode, Event, Fact, LongTermEntry, LoopSummary, Procedure, SearchItem
from nousweb.console.common.demo_tour import tour_panel
from nousweb.demo.demo_loader import demo_info


@pytest.mark.django_db
def test_demo_has_a_history_of_every_store_and_both_personas(capsys):
    call_command("loaddemo")
    agent = Agent.objects.get()
    assert IdentityVersion.objects.filter(restores__isnull=False).exists()
    pending = ChangeProposal.objects.pending()
    assert set(pending.values_list("risk", flat=True)) == {"low", "medium", "high"}
    assert ChangeProposal.objects.filter(status=ChangeProposal.Status.APPLIED).exists()
    assert set(Fact.objects.profile().values_list("category", flat=True)) == {"person", "preference", "rule"}
    for model in (Event, Fact, LoopSummary):
        assert set(model.objects.values_list("persona", flat=True)) == {"actor", "subconscious"}, model
    for model in (Censor, Decision, Episode, Procedure, ContextRun, MemoryUsage):
        assert model.objects.exists(), model
    assert LongTermEntry.objects.count() == Event.objects.count()
    assert not SearchItem.objects.exclude(status="ready").exists()
    days = (Event.objects.latest("ts").ts - Event.objects.earliest("ts").ts).days
    assert days > 28
    info = demo_info()
    assert info is not None
    assert agent.slug in info
    # Its people are guided, and nothing of the story counts as theirs.
    for tour in DemoTour.objects.select_related("person"):
        shown = tour_panel(Principal.of_user(tour.person), [agent])
        assert shown is not None
        assert (shown.done, bool(shown.url)) == (0, True)
    assert DemoTour.objects.count() == 3
    with pytest.raises(CommandError, match="not empty"):
        call_command("loaddemo")
