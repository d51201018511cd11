"""Agents that write and ask without pause, and count what they were answered."""

import contextlib
import hashlib
import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from urllib.parse import urlencode

LETTERS = str.maketrans("0123456789", "ghijklmnop")


class Callers:
    """Threads that write events and facts, and ask for what they have just written and for prompts."""

    def __init__(self, port: int, token: str) -> None:
        self.port, self.token = port, token
        self.answers: Counter[str] = Counter()
        self.failures: list[tuple[object, ...]] = []
        self.unread: list[tuple[object, ...]] = []
        self.events: list[int] = []
        self.seconds: list[float] = []
        self.over = threading.Event()

    @contextlib.contextmanager
    def calling(self, count: int) -> Iterator[None]:
        """So many of them, until the end of the block."""
        threads = [threading.Thread(target=self._work, args=[number]) for number in range(count)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.over.set()
            for thread in threads:
                thread.join(60)

    def _work(self, number: int) -> None:
        kept = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        turn = 0
        while not self.over.is_set():
            turn += 1
            # Unlike all others, so that no fact is taken for another.
            word = f"q{hashlib.sha256(f'{number} {turn}'.encode()).hexdigest()[:12].translate(LETTERS)}"
            event = {"kind": "user_input", "content": f"The {word} ferry leaves.", "loop_id": f"l{number}"}
            made = self._call(kept, "POST", "/events", {"events": [event]})
            if made:
                key = made["events"][0]["id"]
                self.events.append(key)
                # Its own write is there for whoever wrote it.
                if not self._call(kept, "GET", f"/events/{key}"):
                    self.unread.append(("event", word))
            fact = {"content": f"The {word} key hangs on hook {turn}.", "subject": f"key {word}"}
            learned = self._call(kept, "POST", "/facts", fact)
            if learned:
                if not self._call(kept, "GET", f"/facts/{learned['fact']['id']}"):
                    self.unread.append(("fact", word))
                listed = self._call(kept, "GET", f"/facts?{urlencode({'subject': fact['subject']})}")
                if listed and [one["id"] for one in listed["items"]] != [learned["fact"]["id"]]:
                    self.unread.append(("facts", word, listed["items"]))
                self._call(kept, "GET", f"/recall?{urlencode({'q': f'{word} key'})}")
            asked = {"session_id": f"s{number}", "input": f"Where does the {word} key hang?"}
            self._call(kept, "POST", "/context", asked)

    def _call(self, kept: http.client.HTTPConnection, method: str, path: str, body: object = None) -> dict:  # type: ignore[type-arg]
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        began = time.monotonic()
        try:
            kept.request(method, f"/api{path}", None if body is None else json.dumps(body), headers)
            response = kept.getresponse()
            said = response.read()
        except (OSError, http.client.HTTPException) as error:
            kept.close()
            self.failures.append((method, path, repr(error)))
            return {}
        self.seconds.append(time.monotonic() - began)
        self.answers[f"{method} {path.split('?')[0].rstrip('0123456789abcdef-')}"] += 1
        if response.status >= 300:
            self.failures.append((method, path, response.status, said[:300]))
            return {}
        answer: dict = json.loads(said)  # type: ignore[type-arg]
        return answer
