"""What counts as a primary button of a page; test_query_counts.py, which reads every page, counts them."""

from html.parser import HTMLParser

import pytest

VOID = frozenset({"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"})


class PrimaryButtons(HTMLParser):
    """The words of the primary buttons that people see when a page comes up: not those of dialogs, of what is folded,
    and of the bar that opens once something is selected."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self._open: list[tuple[str, bool, bool]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        looks = (given.get("class") or "").split()
        hidden = (
            tag in ("dialog", "template")
            or "hidden" in given
            or (tag == "details" and "open" not in given)
            or "bulkbar" in looks
            or any(hides for _, hides, _ in self._open)
        )
        # The summary of what is folded stays in view.
        if tag == "summary":
            hidden = any(hides for name, hides, _ in self._open[:-1] if name != "details")
        is_button = "btn-primary" in looks and not hidden
        if is_button:
            self.found.append("")
        if tag not in VOID:
            self._open.append((tag, hidden, is_button))

    def handle_endtag(self, tag: str) -> None:
        while self._open and tag not in VOID:
            if self._open.pop()[0] == tag:
                break

    def handle_data(self, data: str) -> None:
        if any(is_button for _, _, is_button in self._open):
            self.found[-1] = " ".join((self.found[-1] + data).split())


@pytest.mark.parametrize(
    ("page", "found"),
    [
        (
            '<a class="btn btn-primary">One</a><input><button class="btn btn-primary">Two</button>',
            ["One", "Two"],
        ),
        ('<details><summary class="btn-primary">Seen</summary><a class="btn-primary">No</a></details>', ["Seen"]),
        (
            '<details open><a class="btn-primary">Seen</a></details><dialog><a class="btn-primary">No</a></dialog>',
            ["Seen"],
        ),
        ('<div hidden><p><a class="btn-primary">No</a></div><a class="btn">No</a>', []),
    ],
)
def test_primary_buttons_are_those_in_view(page: str, found: list[str]) -> None:
    assert PrimaryButtons(page).found == found
