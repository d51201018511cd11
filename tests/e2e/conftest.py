"""A real Chromium against a live server. Pages keep what the browser complained of, and must not."""

from collections.abc import Callable, Iterator

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from django.contrib.auth.models import User
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect
from pytest_django.live_server_helper import LiveServer

from tests.http import signed_in

PATIENCE = 45_000
"""Milliseconds until what does not come is missed: a busy machine may stand still for as long."""
expect.set_options(timeout=PATIENCE)
# A refusal is an answer that some tests ask for; the browser reports it as an error. htmx reports as one that a newer
# request took an older one's place; what fails by itself is also reported by another name.
EXPECTED_COMPLAINTS = ("the server responded with a status of 4",)


OpenPage = Callable[..., Page]


@pytest.fixture
def complaints() -> list[str]:
    """What the browsers of this test have complained of so far."""
    return []


@pytest.fixture(scope="session")
def idle_contexts() -> dict[bool, list[BrowserContext]]:
    """Contexts that no test uses, by whether they run scripts: they have the static files in their cache."""
    return {True: [], False: []}


@pytest.fixture
def open_page(
    chromium: Browser, live_server: LiveServer, complaints: list[str], idle_contexts: dict[bool, list[BrowserContext]]
) -> Iterator[OpenPage]:
    """Opens a page in a browser of its own; it fails the test when the console shows an error, CSP's too."""
    used: list[tuple[bool, BrowserContext]] = []

    def listen(message: ConsoleMessage) -> None:
        if message.type == "error" and not any(known in message.text for known in EXPECTED_COMPLAINTS):
            complaints.append(message.text)

    def open_it(*, javascript: bool = True, width: int = 1440, height: int = 900) -> Page:
        idle = idle_contexts[javascript]
        context = idle.pop() if idle else chromium.new_context(base_url=live_server.url, java_script_enabled=javascript)
        used.append((javascript, context))
        page = context.new_page()
        page.set_viewport_size({"width": width, "height": height})
        page.set_default_timeout(PATIENCE)
        page.on("console", listen)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        return page

    yield open_it
    for javascript, context in used:
        context.unroute_all(behavior="ignoreErrors")
        session = context.new_cdp_session(context.pages[0])
        session.send("Storage.clearDataForOrigin", {"origin": live_server.url, "storageTypes": "all"})
        for page in context.pages:
            page.close()
        context.clear_cookies()
        idle_contexts[javascript].append(context)
    assert complaints == []


@pytest.fixture
def log_in(open_page: OpenPage, live_server: LiveServer) -> Callable[..., Page]:
    """A browser of their own in which a person is logged in; it shows no page yet."""

    def log_in(user: User, **how: object) -> Page:
        page = open_page(**how)
        session = signed_in(user).cookies["sessionid"].value
        page.context.add_cookies([{"name": "sessionid", "value": session, "url": live_server.url}])
        return page

    return log_in


UNSEEN = (
    "[data-keyitem].is-selected details[open] [data-read]:not([data-seen]),"
    "body:has(form[data-decide]):not(:has([data-keyitem].is-selected)) [data-read]:not([data-seen])"
)
"""The texts that a decision key would act on, as long as they have not been in view for long enough."""


def press_key(page: Page, key: str) -> None:
    """Presses a key once the page acts on keys.

    Its heading is there before its scripts, and a decision key waits until the text has been in view.
    """
    page.wait_for_load_state("load")
    expect(page.locator(UNSEEN)).to_have_count(0)
    page.keyboard.press(key)


AXE = (
    AXE_SCRIPT
    + """;(() => {
    const color = axe.commons.color.Color.prototype, read = color.parseString, known = new Map();
    color.parseString = function (text) {
        if (!known.has(text)) {
            const {r, g, b, alpha} = read.call(this, text);
            known.set(text, {r, g, b, alpha});
        }
        return Object.assign(this, known.get(text));
    };
})();"""
)
"""axe, which reads each colour of a page once: else it reads the same twenty for every word, a third of its time."""
# Rules that find nothing graver than "minor" are off, and of other results than violations thousands of elements would
# come back. The grade of a rule is its own or that of its checks, as axe has it.
AXE_RUN = """([tags, left_out]) => {
    const mild = (of) => of.impact === "minor";
    const checks = (rule) => [...rule.any, ...rule.all, ...rule.none].map((one) => axe._audit.checks[one.id || one]);
    const spared = (rule) => rule.impact ? mild(rule) : checks(rule).every(mild);
    const asked = (rule) => tags.length === 0 || rule.tags.some((tag) => tags.includes(tag));
    const off = axe._audit.rules.filter((rule) => spared(rule) || !asked(rule));
    const rules = Object.fromEntries(off.map((rule) => [rule.id, {enabled: false}]));
    const exclude = left_out && document.querySelector(left_out) ? [[left_out]] : [];
    return axe.run({exclude}, {resultTypes: ["violations"], rules}).then((results) => results.violations);
}"""


def assert_accessible(page: Page, *tags: str, left_out: str = "") -> None:
    """Fails, naming rule and element, when axe finds a violation that is graver than minor.

    `tags` are those of the rules to check (all), `left_out` selects a part that is not looked at.
    """
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)
    found = page.evaluate(AXE_RUN, [tags, left_out])
    grave = [
        f"{violation['id']}: {node['target']} {node.get('failureSummary', '')}"
        for violation in found
        if violation["impact"] != "minor"
        for node in violation["nodes"]
    ]
    assert grave == []


KEYS = """() => {
    const seen = (element) => element.checkVisibility({visibilityProperty: true});
    const all = (selector) => [...document.querySelectorAll(selector)].filter(seen);
    const shown = all("kbd").filter((one) => !one.closest("dialog, .switch, .rail")).map((one) => one.textContent);
    const alive = all("[data-key]").filter((one) => !one.disabled).map((one) => one.dataset.key);
    const twice = shown.filter((key, place) => shown.indexOf(key) !== place);
    // It sends the form of any field.
    if (document.querySelector("main form textarea")) alive.push("Ctrl Enter");
    const dead = shown.filter((key) => !alive.includes(key));
    return [...twice.map((key) => `${key} twice`), ...dead.map((key) => `${key} dead`)];
}"""


CUT = """() => {
    const whole = "a[href], summary, details, button, option, [title], [data-whole]";
    const text = (element) => [...element.childNodes].some((one) => one.nodeType === 3 && one.data.trim());
    const reached = (one) =>
        one.closest(whole) || one.querySelector("a[href], [title]") || one.closest("li, tr")?.querySelector("a[href]");
    const cut = (one) => {
        const style = getComputedStyle(one);
        const across = style.overflowX !== "visible" && one.scrollWidth > one.clientWidth + 1;
        const down = style.overflowY !== "visible" && one.scrollHeight > one.clientHeight + 2;
        const scrolls = (way) => way === "auto" || way === "scroll";
        return across && !scrolls(style.overflowX) || down && !scrolls(style.overflowY);
    };
    const clipped = (one) => one.clientHeight <= 1 || one.matches(".visually-hidden, .visually-hidden *");
    // Nobody can see the whole of a token again.
    const secret = (one) => one.textContent.trim().startsWith("nous_");
    const shortened = (one) => text(one) && /\\S…$/.test(one.textContent.trim()) && !secret(one);
    const holds = (one) => cut(one) && [one, ...one.querySelectorAll("*")].some(text);
    return [...document.querySelectorAll("main *")]
        .filter((one) => one.checkVisibility() && !clipped(one) && (holds(one) || shortened(one)) && !reached(one))
        .map((one) => `${one.tagName}.${one.className}: ${one.textContent.trim().slice(0, 60)}`);
}"""


def assert_text_is_whole(page: Page) -> None:
    """Fails, naming the elements, if text is cut off without a title, a link, or a way to open it."""
    assert page.evaluate(CUT) == []


def assert_keys_work(page: Page) -> None:
    """Fails, naming them, if keys are shown twice on a page, or do nothing."""
    assert page.evaluate(KEYS) == []
