"""The standard OTEL_ variables. Reads the environment only: no package of OpenTelemetry is imported."""

import os
from collections.abc import Mapping
from importlib.util import find_spec

SIGNALS = ("traces", "metrics")
PROTOCOL = "http/protobuf"
PACKAGES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


def signals_wanted(environment: Mapping[str, str] = os.environ) -> frozenset[str]:
    """The SIGNALS to export: those whose exporter is `otlp`, or that have an endpoint and no other exporter. None with
    OTEL_SDK_DISABLED=true."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return frozenset()
    return frozenset(signal for signal in SIGNALS if _wanted(signal, environment))


def signals_exported(environment: Mapping[str, str] = os.environ) -> frozenset[str]:
    """The wanted signals, if nothing stands in the way of them."""
    wanted = signals_wanted(environment)
    return frozenset() if wanted and obstacle(environment) else wanted


def obstacle(environment: Mapping[str, str] = os.environ) -> str:
    """The reason why the signals cannot be exported, in one sentence; empty if they can."""
    for signal in sorted(signals_wanted(environment)):
        protocol = _of_signal("PROTOCOL", signal, environment) or PROTOCOL
        if protocol != PROTOCOL:
            return f"OTEL_EXPORTER_OTLP_PROTOCOL={protocol}: only {PROTOCOL} is spoken here."
    if not all(map(_installed, PACKAGES)):
        return "The packages of OpenTelemetry are not installed: install requirements/otel.lock."
    return ""


def _wanted(signal: str, environment: Mapping[str, str]) -> bool:
    exporters = [one.strip() for one in environment.get(f"OTEL_{signal.upper()}_EXPORTER", "").split(",")]
    if exporters != [""]:
        return "otlp" in exporters
    return bool(_of_signal("ENDPOINT", signal, environment))


def _of_signal(name: str, signal: str, environment: Mapping[str, str]) -> str:
    own = environment.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_{name}", "")
    return own.strip() or environment.get(f"OTEL_EXPORTER_OTLP_{name}", "").strip()


def _installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False
