"""Clean up after a benchmark that was killed outright: `python -m benchmarks.cleanup_guard FOLDER`.

The guard is tied to the benchmark by the parent-death signal.

A benchmark that ends by itself, or is asked to, cleans up itself and kills its guard.
"""

import contextlib
import shutil
import signal
import sys
import time
from pathlib import Path

PATIENCE = 30.0
"""Seconds for which what the others leave behind is removed."""


def main(folder: Path) -> None:
    """Wait for the end of whoever started this; then stop the PostgreSQL of `folder` and remove both."""
    from nousweb.runtime.postgres import EmbeddedServer, PostgresProblem

    ends = {signal.SIGTERM, signal.SIGHUP, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    print("watching", flush=True)
    # Ctrl-C is for the benchmark, which tells this one by dying.
    while signal.sigwait(ends) != signal.SIGTERM:
        continue
    with contextlib.suppress(PostgresProblem):
        EmbeddedServer(folder, say=lambda line: None).destroy()
    # Programs that die with the benchmark may still write a last heartbeat, and make the folder again for it.
    deadline = time.monotonic() + PATIENCE
    while folder.exists() and time.monotonic() < deadline:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.5)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
