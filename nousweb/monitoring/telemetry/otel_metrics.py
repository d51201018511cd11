"""Metrics of OpenTelemetry, of the same declarations as those of Prometheus."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from django.db import connections
from opentelemetry.metrics import CallbackOptions, Counter, Histogram, Meter, Observation

from nousweb.lib.recorded_metrics import MEASURES, Measure, recorder_add, recorder_remove
from nousweb.monitoring.gauges import GAUGES, Gauge, Values, gauges_read

FRESH_SECONDS = 1.0
"""All gauges are asked for one after the other, and read together."""


def measures_record(meter: Meter) -> Callable[[], None]:
    """Record all measured values of this process from now on; returns a function that ends this."""
    made = {measure: _made(meter, measure) for measure in MEASURES if measure.otel}

    def recorded(measure: Measure, value: float, labels: Sequence[str]) -> None:
        instrument = made.get(measure)
        if instrument is None:
            return
        attributes: dict[str, str | int] = {
            name: int(label) if label.isdecimal() else _written(name, label)
            for name, label in zip(measure.attributes, labels, strict=True)
        }
        if isinstance(instrument, Counter):
            instrument.add(value, attributes)
        else:
            instrument.record(value, attributes)

    recorder_add(recorded)
    return partial(recorder_remove, recorded)


def _written(attribute: str, label: str) -> str:
    """A label as the attribute has it: routes begin with a slash, where something matched."""
    return f"/{label}" if attribute == "http.route" and not label.startswith("(") else label


def _made(meter: Meter, measure: Measure) -> Counter | Histogram:
    if measure.kind == "counter":
        return meter.create_counter(measure.otel, measure.unit, measure.description)
    return meter.create_histogram(
        measure.otel, measure.unit, measure.description, explicit_bucket_boundaries_advisory=measure.buckets
    )


def gauges_observe(meter: Meter) -> None:
    """Read the gauges of the database whenever metrics are exported, in the thread that exports them."""
    readings = _Readings()
    for gauge in GAUGES:
        meter.create_observable_gauge(gauge.otel, [partial(readings.of, gauge)], gauge.unit, gauge.description)


class _Readings:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read: dict[Gauge, Values] = {}
        self._at = float("-inf")

    def of(self, gauge: Gauge, options: CallbackOptions) -> Iterable[Observation]:
        with self._lock:
            if time.monotonic() - self._at > FRESH_SECONDS:
                try:
                    self._read = dict(gauges_read())
                finally:
                    # The connection is this thread's own, and next used in a minute.
                    connections.close_all()
                self._at = time.monotonic()
            values = self._read.get(gauge, {})
        return [Observation(value, {gauge.label: label} if gauge.label else {}) for label, value in values.items()]
