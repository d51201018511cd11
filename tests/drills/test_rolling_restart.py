"""Two web servers and two workers with data folders of their own on one database, behind nginx: each is started again
while agents call, and no request fails."""

import signal
import sys
import time

from tests.drills.callers import Callers
from tests.drills.programs import free_port, proxy_running
from tests.product import PATIENCE, product_running, until
from tests.security.scale import scaled
from tests.security.test_erasure_under_load import worker_done

CALLERS, ROUNDS = 6, scaled(1, 3)
COUNTED = "SELECT count(*) FROM memory_event WHERE id = ANY('{{{}}}')"
DERIVED = "SELECT count(*), count(DISTINCT event_id) FROM memory_longtermentry"


def test_no_request_fails_while_web_servers_and_workers_are_started_again(capsys):
    with product_running("rolling") as product:
        ports = [free_port(), free_port()]

        def folder(number):
            made = product.folder / f"machine-{number}"
            made.mkdir(exist_ok=True)
            return {"NOUS_DATA_DIR": str(made), "NOUS_PORT": str(ports[number])}

        def web(number):
            return product.start(
                "-m", "gunicorn", "-c", "python:nousweb.runtime.gunicorn", NOUS_DB_KEEP_SECONDS="600", **folder(number)
            )

        def worker(number):
            return product.start("manage.py", "qcluster", **folder(number))

        def answers(number):
            product.port = ports[number]
            return product.call("GET", "/index")[0] == 200

        webs, workers = [web(0), web(1)], [worker(0), worker(1)]
        for number in range(2):
            until("the web server answers", lambda number=number: answers(number))
        with proxy_running(product.folder / "proxy", ports) as port:
            callers = Callers(port, product.token)
            began = time.monotonic()
            with callers.calling(CALLERS):
                time.sleep(2)
                for _ in range(ROUNDS):
                    for number in range(2):
                        for running, start in ((webs, web), (workers, worker)):
                            running[number].send_signal(signal.SIGTERM)
                            running[number].wait(PATIENCE)
                            running[number] = start(number)
                        until("the web server answers", lambda number=number: answers(number))
                time.sleep(2)
            seconds = time.monotonic() - began
            product.port = port
            worker_done(product)
        with capsys.disabled():
            sys.stdout.write(
                f"\n{2 * ROUNDS} restarts of a web server and as many of a worker in {seconds:.0f} s:"
                f" {sum(callers.answers.values())} requests, {len(callers.failures)} failed, the slowest"
                f" {max(callers.seconds):.1f} s\n"
            )
        assert callers.failures == [], (product.folder / "proxy" / "error.log").read_text()[-2_000:]
        assert callers.unread == []
        assert product.rows(COUNTED.format(",".join(map(str, callers.events)))) == [(len(callers.events),)]
        [[entries, distinct]] = product.rows(DERIVED)
        assert entries == distinct >= len(callers.events)
