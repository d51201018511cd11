"""Traces and metrics by OpenTelemetry, as a collector gets them over HTTP; and that a bad collector harms nobody."""

import gzip
import importlib
import json
import logging
import threading
import time
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from django.test import Client
from django_q.signals import post_execute_in_worker, pre_execute
from django_q.signing import SignedPackage

pytest.importorskip("opentelemetry.exporter.otlp.proto.http")

from django_q.models import OrmQ
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.trace import SpanKind

from context.models import ContextRun
from memory.tasks import embed_pending, lifecycle_run
from nousweb.lib import tracing
from nousweb.monitoring.telemetry.exporter import (
    obstacle,
    signals_exported,
    signals_wanted,
    telemetry_start,
    telemetry_stop,
)
from nousweb.monitoring.telemetry.spans import CurrentSpan, described
from tests.factories import make_fact, make_token
from tests.judge_server import JudgeServer, Reply

pytestmark = pytest.mark.django_db
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SECRET_WORDS = "The vault of the lighthouse opens with heliotrope"


class Collector:
    """A collector of OTLP over HTTP, on a free port; `hang` lets it take what it is sent and say nothing."""

    def __init__(self, *, hang=False):
        self.spans, self.metrics, self.raw = [], {}, b""
        self.released = threading.Event()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if hang:
                    collector.released.wait(30)
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.raw += body
                collector.took(self.path, body)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def took(self, path, body):
        if path == "/v1/traces":
            message = ExportTraceServiceRequest.FromString(body)
            self.spans += [
                span for resource in message.resource_spans for scope in resource.scope_spans for span in scope.spans
            ]
        else:
            message = ExportMetricsServiceRequest.FromString(body)
            self.metrics |= {
                metric.name: metric
                for resource in message.resource_metrics
                for scope in resource.scope_metrics
                for metric in scope.metrics
            }

    def tree(self):
        """Names of the spans below each name, and all spans by name."""
        by_id, named, below = {span.span_id: span for span in self.spans}, defaultdict(list), defaultdict(set)
        for span in self.spans:
            named[span.name].append(span)
            if span.parent_span_id in by_id:
                below[by_id[span.parent_span_id].name].add(span.name)
        return below, named

    def close(self):
        self.released.set()
        self.server.shutdown()
        self.server.server_close()
        for thread in threading.enumerate():
            if thread.name.startswith("OtelBatch"):
                thread.join(5)


def stop_when_taken(collector, name):
    """End the export, and wait until the collector has the span or the metric `name`, which is sent last."""
    telemetry_stop()
    deadline = time.monotonic() + 60
    while name not in collector.metrics and all(span.name != name for span in collector.spans):
        assert time.monotonic() < deadline, f"not taken: {name}"
        time.sleep(0.05)


def attributes(span):
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


@pytest.fixture
def exporting(monkeypatch, settings):
    """Starts to export to a collector, as a web process does; all is stopped at the end."""
    collectors = []

    def start(*, gauges=False, **collector):
        collectors.append(Collector(**collector))
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collectors[-1].url)
        # A batch that a busy machine takes longer to send is lost.
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1" if collector.get("hang") else "60")
        settings.MIDDLEWARE = ["nousweb.monitoring.telemetry.spans.TraceMiddleware", *settings.MIDDLEWARE]
        telemetry_start(gauges=gauges)
        return collectors[-1]

    yield start
    telemetry_stop()
    for collector in collectors:
        collector.close()


def ask(agent, **headers):
    """One prompt, asked for as an agent does."""
    secret = make_token(agent)
    body = {"session_id": "s1", "input": "What opens the vault of the lighthouse?"}
    return secret, Client().post(
        "/api/context", json.dumps(body), "application/json", headers={"Authorization": f"Bearer {secret}", **headers}
    )


def test_collector_gets_the_span_tree_of_a_context(exporting, ada, system):
    make_fact(ada, SECRET_WORDS, by=system)
    embed_pending()
    collector = exporting()
    secret, answer = ask(ada, traceparent=CALLER)
    stop_when_taken(collector, "POST /api/context")
    trace_id = CALLER.split("-")[1]
    assert answer.status_code == 200
    assert answer.json()["trace_id"] == trace_id
    assert answer["traceresponse"].startswith(f"00-{trace_id}-")
    assert ContextRun.objects.get().trace_id == trace_id
    below, named = collector.tree()
    assert {span.trace_id.hex() for span in collector.spans} == {trace_id}
    [request] = named["POST /api/context"]
    assert request.parent_span_id.hex() == CALLER.split("-")[2]
    assert attributes(request)["http.response.status_code"] == 200
    assert "context" in below["POST /api/context"]
    assert below["context"] >= {"context.plan", "context.sections", "context.search", "context.assembly"}
    assert "search_memory" in below["context.search"]
    assert below["search_memory"] >= {"search.counts", "search.words", "search.embedding", "search.loading"}
    [searched] = named["search_memory"]
    assert attributes(searched)["gen_ai.operation.name"] == "search_memory"
    assert attributes(searched)["gen_ai.memory.store.id"] == "ada"
    assert attributes(searched)["gen_ai.memory.record.count"] == 1
    embedded = [span for name, spans in named.items() if name.startswith("embeddings ") for span in spans]
    assert {attributes(span)["gen_ai.provider.name"] for span in embedded} == {"local"}
    [kept] = named["INSERT context_contextrun"]
    assert "INSERT INTO" in attributes(kept)["db.query.text"]
    for word in (secret, "heliotrope", "lighthouse", "vault"):
        assert word.encode() not in collector.raw, word


def test_span_of_a_thread_that_begins_late_is_kept(exporting):
    collector = exporting()
    with CurrentSpan(tracing.configured_tracer().begun("request", SpanKind.SERVER, {}, {})):
        with tracing.span("step"):
            work = tracing.carried(lambda: tracing.span("work"))
        with work():
            pass
    stop_when_taken(collector, "request")
    below, _ = collector.tree()
    assert below == {"request": {"step"}, "step": {"work"}}


def test_trace_goes_on_in_the_task_and_in_the_judge(exporting, ada, system):
    make_fact(ada, "Timotheus never sails at night.", subject="Timotheus", by=system)
    embed_pending()
    OrmQ.objects.all().delete()
    collector = exporting()
    with JudgeServer() as judge, judge.configured():
        # Who waits is not kept waiting; the worker asks again.
        judge.fail(529).always(Reply(input={"relation": "update", "confidence": 0.95, "reason": "Changed."}))
        secret = make_token(ada)
        fact = {"content": "Timotheus sometimes sails at night.", "subject": "Timotheus"}
        answer = Client().post(
            "/api/facts", json.dumps(fact), "application/json",
            headers={"Authorization": f"Bearer {secret}", "traceparent": CALLER},
        )  # fmt: skip
        assert answer.status_code == 201, answer.content
        for message in OrmQ.objects.all():
            task = SignedPackage.loads(message.payload)
            if task["func"] == "memory.tasks.lifecycle_run":
                pre_execute.send(sender="django_q", func=lifecycle_run, task=task)
                assert lifecycle_run(*task["args"]) == "done"
                post_execute_in_worker.send(sender="django_q", func=lifecycle_run, task=task | {"success": True})
        stop_when_taken(collector, "process memory.tasks.lifecycle_run")
    below, named = collector.tree()
    assert {span.trace_id.hex() for span in collector.spans} == {CALLER.split("-")[1]}
    assert "process memory.tasks.lifecycle_run" in below["POST /api/facts"]
    assert any(name.startswith("job ") for name in below["process memory.tasks.lifecycle_run"])
    asked = [attributes(span) for name, spans in named.items() if name.startswith("chat ") for span in spans]
    # The verdict, and the same again of the two facts exchanged.
    assert [one.get("error.type") for one in asked] == ["OverloadedError", None, None]
    assert (asked[1]["gen_ai.usage.input_tokens"], asked[1]["gen_ai.usage.output_tokens"]) == (100, 20)
    for word in ("Timotheus", "sails", "key-of-the-test-judge"):
        assert word.encode() not in collector.raw, word


def test_collector_gets_metrics_of_the_same_declarations(exporting, ada):
    collector = exporting(gauges=True)
    assert ask(ada)[1].status_code == 200
    stop_when_taken(collector, "nous.queue.oldest")
    [point] = [
        one
        for one in collector.metrics["http.server.request.duration"].histogram.data_points
        if attributes(one)["http.route"] == "/api/context"
    ]
    assert attributes(point)["http.response.status_code"] == 200
    assert collector.metrics["nous.context.tokens"].histogram.data_points[0].count == 1
    for name in ("nous.context.duration", "nous.context.memories", "nous.queue.jobs", "nous.queue.oldest"):
        assert name in collector.metrics


def test_collector_that_hangs_delays_no_request_and_no_stop(exporting, ada, monkeypatch):
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
    exporting(hang=True)
    ask(ada)
    began = time.monotonic()
    for _ in range(10):
        assert ask(ada)[1].status_code == 200
    assert time.monotonic() - began < 5
    began = time.monotonic()
    telemetry_stop()
    assert time.monotonic() - began < 5
    assert not tracing.traced()


def test_nothing_is_imported_or_wrapped_where_it_is_off(ada):
    assert signals_wanted({}) == frozenset()
    assert tracing.span("context") is tracing.span("search_memory") is tracing.NOTHING
    assert tracing.carried(ask) is ask
    _, answer = ask(ada)
    assert answer.json()["trace_id"] == ""
    assert "traceresponse" not in answer


@pytest.mark.parametrize(
    ("environment", "signals", "problem"),
    [
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, {"traces", "metrics"}, ""),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, {"traces"}, ""),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_METRICS_EXPORTER": "none"}, {"traces"}, ""),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, {"traces"}, ""),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "true"}, set(), ""),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, {"traces"}, "http/protobuf"),
    ],
)
def test_standard_variables_say_what_is_exported(environment, signals, problem):
    assert signals_wanted(environment) == signals
    assert problem in obstacle(environment)
    assert signals_exported(environment) == (set() if problem else signals)


@pytest.mark.parametrize(
    ("statement", "summary", "text"),
    [
        ('SELECT "a"."b" FROM "memory_fact" WHERE c = %s', "SELECT memory_fact", None),
        ("SELECT set_config('x', 'it''s mine', false)", "SELECT", "SELECT set_config(?, ?, false)"),
        (r"UPDATE t SET a = E'it\'s mine' WHERE b = 'x'", "UPDATE t", "UPDATE t SET a = ? WHERE b = ?"),
        ("INSERT INTO t VALUES ('cut off in the mid", "INSERT t", "INSERT INTO t VALUES (?"),
    ],
)
def test_statements_are_described_without_values(statement, summary, text):
    assert described(statement) == (summary, text or statement)


def test_doctor_says_whether_the_collector_answers(exporting, capsys, caplog):
    caplog.set_level(logging.CRITICAL)
    collector = exporting()
    doctor = importlib.import_module("nousweb.management.commands.doctor")
    well = list(doctor._telemetry())
    assert [one.advice for one in well] == ["", ""]
    assert f"traces are taken at {collector.url}/v1/traces" in [one.state for one in well]
    collector.server.shutdown()
    collector.server.server_close()
    ill = list(doctor._telemetry())
    assert all("start the collector" in one.advice for one in ill)


def test_run_page_shows_and_links_its_trace(ada, alice, settings):
    ask(ada)
    run = ContextRun.objects.get()
    ContextRun.objects.filter(pk=run.pk).update(trace_id="0af7651916cd43dd8448eb211c80319c")
    client = Client()
    client.force_login(alice)
    settings.TRACE_URL = ""
    why = f"{run.get_absolute_url()}?tab=why"
    assert "0af7651916cd43dd8448eb211c80319c</span>" in client.get(why).content.decode()
    settings.TRACE_URL = "https://traces.example/{trace_id}"
    assert 'href="https://traces.example/0af7651916cd43dd8448eb211c80319c"' in client.get(why).content.decode()
