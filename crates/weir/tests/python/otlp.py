"""Sends spans, log records and counters by OpenTelemetry's own SDK: otlp.py http|grpc ADDRESS COUNT.

In the middle it says so on stdout and waits for a line on stdin.
"""

import logging
import sys

from opentelemetry.metrics import Observation
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind

protocol, address, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
if protocol == "grpc":
    from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

    exporter = lambda kind, _path: kind(endpoint=f"http://{address}", insecure=True, timeout=60)
else:
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    exporter = lambda kind, path: kind(endpoint=f"http://{address}/v1/{path}", timeout=60)

resource = Resource.create({"service.name": f"py-{protocol}", "host.name": "pyhost"})
traces = TracerProvider(resource=resource)
traces.add_span_processor(BatchSpanProcessor(exporter(OTLPSpanExporter, "traces")))
tracer = traces.get_tracer("test")
logs = LoggerProvider(resource=resource)
logs.add_log_record_processor(BatchLogRecordProcessor(exporter(OTLPLogExporter, "logs")))
logger = logging.getLogger("test")
logger.addHandler(LoggingHandler(logger_provider=logs))
logger.setLevel(logging.INFO)
reader = PeriodicExportingMetricReader(exporter(OTLPMetricExporter, "metrics"), export_interval_millis=3_600_000)
meters = MeterProvider(resource=resource, metric_readers=[reader])
counter = meters.get_meter("test").create_counter("turns")
meters.get_meter("test").create_observable_gauge("level", callbacks=[lambda _: [Observation(0.5)]])


def send(numbers):
    for n in numbers:
        with tracer.start_as_current_span(
            f"GET /{n}",
            kind=SpanKind.SERVER,
            attributes={"http.request.method": "GET", "url.path": f"/{n}", "http.response.status_code": 200},
        ):
            with tracer.start_as_current_span("inner"):
                logger.warning("number %d", n)
        counter.add(1)
    if not (traces.force_flush(90_000) and logs.force_flush(90_000) and meters.force_flush(90_000)):
        sys.exit("not flushed")


send(range(count // 2))
print("half", flush=True)
sys.stdin.readline()
send(range(count // 2, count))
for provider in (traces, logs):
    provider.shutdown()
