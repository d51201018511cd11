"""A type of memory is declared in each layer, or in none."""

import pytest
from django.urls import get_resolver

from context.engine.section_budgets import MEMORY_SECTIONS
from identity.policy import changes
from identity.policy.permissions import PEOPLE_ONLY_PERMISSIONS, PROJECT_TOKEN_PERMISSIONS, SCOPE_PERMISSIONS
from identity.services.change_feed import bodies
from memory.models import ItemType, SearchItem
from memory.transfer.export_tables import TABLES
from memory.types import MEMORY_TYPES
from nousweb.access.roles import ROLE_PERMISSIONS
from nousweb.console.common import TYPE_PAGES


def test_memory_types_are_known_by_each_layer():
    assert list(MEMORY_TYPES) == ItemType.values
    assert MEMORY_SECTIONS.keys() - {"loop"} == MEMORY_TYPES.keys()
    assert TYPE_PAGES.keys() == MEMORY_TYPES.keys()
    assert {one.model for one in MEMORY_TYPES.values()} <= set(TABLES)


def test_memory_types_have_their_pages():
    names = get_resolver().reverse_dict
    assert all(one.page in names and one.list_page in names for one in TYPE_PAGES.values())
    assert all(name in names for one in TYPE_PAGES.values() for name in one.sub_pages)


def test_memory_types_decide_the_permissions():
    for one in MEMORY_TYPES.values():
        assert one.permission("view") in ROLE_PERMISSIONS["Viewer"]
        assert one.permission("view") in SCOPE_PERMISSIONS["memory:read"]
        assert {one.permission(action) for action in one.reviewers_may} <= set(ROLE_PERMISSIONS["Reviewer"])
        given = {one.permission(action) for action in one.tokens_may}
        assert given <= SCOPE_PERMISSIONS["memory:read"] | SCOPE_PERMISSIONS["memory:write"]
        assert not given & PEOPLE_ONLY_PERMISSIONS
        assert given <= PROJECT_TOKEN_PERMISSIONS


def test_memory_type_keys_fit_the_index():
    assert max(map(len, ItemType.values)) <= SearchItem._meta.get_field("item_type").max_length


def test_memory_types_show_themselves_in_the_feed():
    assert {one.name for one in MEMORY_TYPES.values()} - bodies.keys() == {"event"}


def test_plain_actions_are_kinds_of_change(monkeypatch):
    monkeypatch.setattr(changes, "CHANGE_KINDS", dict(changes.CHANGE_KINDS))
    monkeypatch.setattr(changes, "KIND_OF_ACTION", dict(changes.KIND_OF_ACTION))
    monkeypatch.setattr(changes, "ACTIONS", dict(changes.ACTIONS))
    monkeypatch.setattr(changes, "BLOCKS", dict(changes.BLOCKS))
    changes.action_register("leaflet", "leaflet", "create", "memory.view_leaflet")
    changes.action_register("leaflet", "leaflet", "retire", "memory.view_leaflet")
    assert changes.KIND_OF_ACTION["leaflet.create"] == "leaflet.created"
    assert changes.audit_phrase("leaflet.create") == "added the leaflet"
    assert changes.blocks_touched("leaflet.created") == ("leaflets",)
    assert changes.CHANGE_KINDS["leaflet.retired"] == changes.ChangeKind("memory.view_leaflet")
    with pytest.raises(ValueError, match="declared already"):
        changes.action_register("leaflet", "leaflet", "create", "memory.view_leaflet")
