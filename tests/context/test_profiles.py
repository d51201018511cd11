"""What each kind of agent wants to be told, and how a task changes it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context.engine.analysis.intent import mentioned_files
from context.engine.analysis.profiles import (
    BUILT_IN,
    Profile,
    compression_of,
    profile_check,
    profile_of,
    profile_values,
    tier_weights,
)
from nousweb.lib.errors import Invalid


@pytest.mark.parametrize(
    ("kind", "mode", "weights"),
    [
        ("knight", "implement", (0.561, 0.252, 0.187)),
        ("royalty", "analysis_only", (0.167, 0.556, 0.278)),
        ("knight", None, (0.5, 0.3, 0.2)),
        ("squire", "cheap", (0.4, 0.4, 0.2)),
    ],
)
def test_profile_task_mode_moves_the_weights(kind, mode, weights):
    found = tier_weights(BUILT_IN[kind], mode)
    assert [found["task"], found["project"], found["global"]] == pytest.approx(weights, abs=0.0005)


@given(*[st.floats(0, 1) for _ in range(3)], st.sampled_from([None, "implement", "analysis_only", "plan", "cheap"]))
def test_profile_weights_always_add_up_to_one(task, project, everywhere, mode):
    profile = Profile("p", task_weight=task, project_weight=project, global_weight=everywhere)
    assert sum(tier_weights(profile, mode).values()) == pytest.approx(1.0)


def test_profile_cheap_mode_shortens_more_unless_forbidden():
    assert compression_of(BUILT_IN["knight"], None) == 0.6
    assert compression_of(BUILT_IN["knight"], "cheap") == pytest.approx(0.9)
    assert compression_of(BUILT_IN["peasant"], "cheap") == 0.0


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("Fix src/foo/bar.py now", ("src/foo/bar.py",)),
        ("/absolute/path/file.ts and README.md.", ("/absolute/path/file.ts", "README.md")),
        ("tests/test_x.py:42, tests/test_x.py", ("tests/test_x.py",)),
        ("bump v1.2.3, e.g. to 3.14, i.e. later", ()),
        ("see example.com or https://nous.dev/a", ()),
        ("", ()),
        ("in a.py, x.c and lib/q.z", ("a.py", "x.c", "lib/q.z")),
        ("open ./b.h, ../c.rs and .github/workflows/ci.yml", ("b.h", "../c.rs", ".github/workflows/ci.yml")),
        ("0001_first.sql and 2026-report.csv", ("0001_first.sql", "2026-report.csv")),
        ("at 9 a.m. J.C. said (a.k.a. the U.S. way, d.h. so) v1.x and v2.beta of x.com", ()),
    ],
)
def test_profile_file_names_are_found_and_versions_are_not(text, files):
    assert mentioned_files(text) == files


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"task_weight": 1.5}, "task_weight"),
        ({"task_weight": True}, "task_weight"),
        ({"preserve_head": -1}, "preserve_head"),
        ({"allow_compression": 1}, "allow_compression"),
        ({"preferred_kinds": "code"}, "preferred_kinds"),
        ({"layers": ["all"]}, "layers"),
        ({"colour": "red"}, "colour"),
        ({"profile_id": "x"}, "profile_id"),
    ],
)
def test_profile_bad_setting_is_refused_by_name(values, field):
    with pytest.raises(Invalid) as refusal:
        profile_check(values)
    assert refusal.value.field == field


@pytest.mark.parametrize("kind", list(BUILT_IN))
def test_profile_stored_settings_reproduce_it(kind):
    profile = BUILT_IN[kind]
    assert profile_of(profile.profile_id, profile_check(profile_values(profile))) == profile
