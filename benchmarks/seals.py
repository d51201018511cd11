"""What seals cost writers: python -m benchmarks.seals [--single 1500] [--bulk 20000] [--facts 300]

Events are posted over HTTP one a call and 200 a call, and facts one a call; then what was written is sealed, and
verified. Seconds of CPU are those of the web server and PostgreSQL for writing, of this process and PostgreSQL for
sealing, so they say what each costs whatever else the machine does.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.ingestion import cpu_seconds, server_pid
from benchmarks.latency import texts_made
from benchmarks.system import RESULTS, Client, System, system

A_CALL = 200


def events_post(client: Client, texts: list[str], a_call: int) -> None:
    for begin in range(0, len(texts), a_call):
        events = [{"kind": "user_input", "content": text, "loop_id": "bench"} for text in texts[begin : begin + a_call]]
        client.post("/events", {"events": events})


def written_and_sealed(running: System, write: Callable[[], None]) -> dict[str, Any]:
    """CPU of what `write` does, of sealing what it left, and of verifying all that is sealed."""
    from identity.services.seals.sealer import log_seal
    from identity.services.seals.verification import Verification

    log_seal(at_once=True)
    both, database = {running.web.pid, server_pid()}, {server_pid()}
    before, began = cpu_seconds(both), time.perf_counter()
    write()
    writing, took = cpu_seconds(both) - before, time.perf_counter() - began
    before, own, began = cpu_seconds(database), time.process_time(), time.perf_counter()
    rows = log_seal(at_once=True)
    sealing = cpu_seconds(database) - before + time.process_time() - own
    sealing_took = time.perf_counter() - began
    began = time.perf_counter()
    verification = Verification()
    while verification.step():
        pass
    report = verification.finish()
    return {
        "rows_sealed": rows,
        "write_cpu_seconds": writing,
        "write_seconds": took,
        "seal_cpu_seconds": sealing,
        "seal_seconds": sealing_took,
        "seal_rows_per_second": rows / sealing_took,
        "share_percent": 100 * sealing / writing,
        "problems": report.problems,
        "verified_rows_per_second": report.rows / (time.perf_counter() - began),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--single", type=int, default=1_500)
    parser.add_argument("--bulk", type=int, default=20_000)
    parser.add_argument("--facts", type=int, default=300)
    options = parser.parse_args()
    with system() as running:
        client = running.agent("seals")
        events_post(client, texts_made(64, 1), A_CALL)
        single, bulk = texts_made(options.single, 2), texts_made(options.bulk, 3)
        facts = texts_made(options.facts, 4)
        ways: dict[str, Callable[[], None]] = {
            "events, one a call": lambda: events_post(client, single, 1),
            "events, 200 a call": lambda: events_post(client, bulk, A_CALL),
            "facts, one a call": lambda: [client.post("/facts", {"content": text}) for text in facts] and None,
        }
        found = {name: written_and_sealed(running, write) for name, write in ways.items()}
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "seals.json").write_text(json.dumps(found, indent=1))
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
