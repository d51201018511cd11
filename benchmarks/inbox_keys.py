"""An inbox worked off by keys alone: python -m benchmarks.inbox_keys [--proposals 44] [--questions 60] [--pause 0.5]

A real Chromium opens the inbox and decides each item as the gold list says (benchmarks.inbox_items). The watch begins
when the key goes down and ends with the second frame that shows the next item, once its scripts hear keys and no answer
is missing that it needs. Between decisions passes the time of `--pause`, in which nothing is measured.
"""

import argparse
import json
import shutil
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.inbox_items import Gold, differences, items_made
from benchmarks.system import RESULTS, system

CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
PAUSE_SECONDS = 0.5
PATIENCE_MS = 30_000
WATCH = """
(() => {
  const kept = () => JSON.parse(sessionStorage.getItem("watch") ?? "{}");
  const keep = (more) => sessionStorage.setItem("watch", JSON.stringify({ ...kept(), ...more }));
  const now = (at) => performance.timeOrigin + at;
  addEventListener("keydown", (event) => keep({ down: now(event.timeStamp) }), true);
  const item = () => {
    if (document.readyState !== "complete" || !document.body.dataset.shortcuts) return null;
    const form = document.querySelector("form.decide");
    if (form?.hasAttribute("aria-busy")) return null;
    return new URL(form?.getAttribute("action") ?? location, location).pathname;
  };
  let seen = null;
  const frame = () => {
    const shown = item();
    if (shown !== null && shown === seen && kept().item !== shown) keep({ item: shown, at: now(performance.now()) });
    seen = shown;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
})();
"""
READ = "() => JSON.parse(sessionStorage.getItem('watch') ?? '{}')"
MOVED = "(item) => ![undefined, item].includes(JSON.parse(sessionStorage.getItem('watch') ?? '{}').item)"


@dataclass(slots=True)
class Work:
    """What was pressed, and the milliseconds from a deciding key to the next item, by the type of what was decided."""

    keys: int = 0
    milliseconds: dict[str, list[float]] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def all(self) -> list[float]:
        return [each for of in self.milliseconds.values() for each in of]


def worked_off(page: Any, gold: dict[str, Gold], pause: float = 0.0) -> Work:
    """Open the inbox in a page that is logged in and has WATCH, and decide the pending items, one after another."""
    work, began = Work(), time.perf_counter()
    page.goto("/inbox/")
    page.wait_for_load_state("load")
    for key in ("j", "Enter"):
        page.keyboard.press(key)
        work.keys += 1
    page.wait_for_function(MOVED, arg="/inbox/", timeout=PATIENCE_MS)
    for _ in gold:
        item = page.evaluate(READ)["item"]
        found = gold[item.rstrip("/").rpartition("/")[2]]
        time.sleep(pause)
        # A decision key acts on what has been in view for half a second.
        page.wait_for_selector("[data-read][data-seen]", state="attached", timeout=PATIENCE_MS)
        page.keyboard.press(found.key)
        work.keys += 1
        page.wait_for_function(MOVED, arg=item, timeout=PATIENCE_MS)
        watch = page.evaluate(READ)
        work.milliseconds.setdefault(found.type, []).append(watch["at"] - watch["down"])
    work.seconds = time.perf_counter() - began
    return work


def measured(proposals: int, questions: int, pause: float) -> dict[str, Any]:
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, CHROMIUM)))
    with system() as running:
        from django.conf import settings
        from django.contrib.auth.models import User
        from django.test import Client

        from identity.principal import Principal

        person = User.objects.create_superuser("reviewer")
        gold = items_made(Principal.of_user(person), proposals, questions)
        client = Client()
        client.force_login(person)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
            page = browser.new_page(base_url=f"http://127.0.0.1:{running.port}")
            session = client.cookies[settings.SESSION_COOKIE_NAME].value
            cookie = {"name": settings.SESSION_COOKIE_NAME, "value": session, "url": f"http://127.0.0.1:{running.port}"}
            page.context.add_cookies([cookie])
            page.add_init_script(WATCH)
            work = worked_off(page, gold, pause)
            browser.close()
        wrong = differences(gold)
    shares = {f"p{share}_ms": float(np.percentile(work.all, share)) for share in (50, 95, 100)}
    of_each = {kind: float(np.percentile(of, 95)) for kind, of in work.milliseconds.items()}
    return {
        "items": len(gold), "keys": work.keys, "seconds": work.seconds, "pause": pause, **shares,
        "p95_ms_of": of_each, "not_as_gold": wrong,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--proposals", type=int, default=44)
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--pause", type=float, default=PAUSE_SECONDS)
    options = parser.parse_args()
    found = measured(options.proposals, options.questions, options.pause)
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "inbox-keys.json").write_text(json.dumps(found, indent=1))
    print(json.dumps(found, indent=1))
    return 1 if found["not_as_gold"] else 0


if __name__ == "__main__":
    sys.exit(main())
