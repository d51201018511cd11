"""The page of the components, for developers."""

from pathlib import Path

from tests.http import browser, markup

COMPONENTS = Path(__file__).parent.parent.parent / "templates" / "components"


def test_styleguide_shows_each_component_in_both_schemes(alice, settings):
    settings.DEBUG = True
    page = markup(browser(alice).get("/styleguide/"))
    assert [path.stem for path in COMPONENTS.glob("*.html") if f"<dt>{path.stem}</dt>" not in page] == []
    for part in ("scheme-light", "scheme-dark"):
        assert page.count(f'class="stack scheme {part}"') == 1
    for part in ("btn btn-primary", "badge badge-warn", "notice notice-error", "diff is-split", 'class="empty"'):
        assert page.count(part) >= 2, part


def test_styleguide_is_not_there_without_debug(alice):
    assert browser(alice).get("/styleguide/").status_code == 404
