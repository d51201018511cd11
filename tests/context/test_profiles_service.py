"""Profiles as rows: what is in force and where it is from, versions, and whose profile it is."""

import pytest

from context.engine.analysis.profiles import active_profile
from context.models import ContextProfile
from context.services.agent_settings import (
    effective_settings,
    profile_assign,
    profile_create,
    profile_get,
    profile_update,
)
from identity.models import AuditEvent
from identity.principal import Principal
from nousweb.lib.errors import Conflict, Invalid, NotAllowed, NotFound


def of(profile, name):
    return next(one for one in effective_settings(profile) if one.name == name)


def test_profile_value_names_its_origin(ada, reviewer):
    base = profile_create(slug="base", name="Base", base=None, values={"preserve_head": 7}, by=reviewer)
    own = profile_create(slug="own", name="Own", base=base, values={"min_importance": 0.9}, by=reviewer)
    assert (of(own, "min_importance").value, of(own, "min_importance").origin) == (0.9, "own")
    head = of(own, "preserve_head")
    assert (head.value, head.origin, head.base.slug) == (7, "base", "base")
    assert (of(own, "preserve_tail").value, of(own, "preserve_tail").origin) == (2, "default")
    assert active_profile(ada, "own")[0].preserve_head == 7
    profile_update(profile=base, values={"preserve_head": 1}, by=reviewer)
    assert of(own, "preserve_head").value == 1


def test_profile_edit_is_a_new_version_on_its_base(db, reviewer):
    profile = profile_get("knight_default")
    assert profile_update(profile=profile, values={"preserve_head": 9}, by=reviewer, base_version=1).version == 2
    with pytest.raises(Conflict):
        profile_update(profile=profile, values={"preserve_head": 8}, by=reviewer, base_version=1)
    assert profile.versions.count() == 2
    assert AuditEvent.objects.filter(action="profile.update").count() == 1


def test_profile_of_an_agent_is_chosen_and_removed(ada, charlie, reviewer):
    admin = Principal.of_user(charlie)
    assert active_profile(ada)[0].profile_id == "squire_default"
    changed = profile_assign(agent=ada, slug="royalty_default", by=admin)
    assert active_profile(changed)[0].profile_id == "royalty_default"
    record = AuditEvent.objects.get(action="agent.configure")
    assert (record.before, record.after) == ({"profile": None}, {"profile": "royalty_default"})
    changed = profile_assign(agent=ada, slug="", by=admin)
    assert (active_profile(changed)[0].profile_id, changed.config) == ("squire_default", {})
    with pytest.raises(NotFound):
        profile_assign(agent=ada, slug="nobody", by=admin)
    with pytest.raises(NotAllowed):
        profile_assign(agent=ada, slug="royalty_default", by=reviewer)


def test_profile_choice_leaves_other_configuration(ada, charlie):
    ada.config = {"budgets": {"facts": 5}}
    ada.save()
    changed = profile_assign(agent=ada, slug="royalty_default", by=Principal.of_user(charlie))
    assert changed.config == {"budgets": {"facts": 5}, "profile": "royalty_default"}


def test_profile_slug_format_is_checked(db, reviewer, subtests):
    for slug in ["Upper", "", "a b", "x" * 51, "a\n"]:
        with subtests.test(slug=slug):
            with pytest.raises(Invalid):
                profile_create(slug=slug, name="x", base=None, values={}, by=reviewer)
            assert ContextProfile.objects.count() == 4


def test_profile_change_permissions(db, alice, actor):
    for by in (Principal.of_user(alice), actor):
        with pytest.raises(NotAllowed):
            profile_create(slug="x", name="x", base=None, values={}, by=by)
        with pytest.raises(NotAllowed):
            profile_update(profile=profile_get("knight_default"), values={}, by=by)
