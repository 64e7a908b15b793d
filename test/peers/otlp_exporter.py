# Spans by Python's own exporters: python3 otlp_exporter.py grpc-host:port http-host:port. Prints the name of each span that was taken.
import sys

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult

GRPC, HTTP = sys.argv[1:]
EXPORTERS = {
    "grpc": GrpcExporter(endpoint=f"http://{GRPC}", insecure=True),
    "http": HttpExporter(endpoint=f"http://{HTTP}/v1/traces"),
    "http gzip": HttpExporter(endpoint=f"http://{HTTP}/v1/traces", compression=Compression.Gzip),
}

for name, exporter in EXPORTERS.items():
    provider = TracerProvider()
    with provider.get_tracer("peer").start_as_current_span(name, attributes={"tokens": [1, 2], "half": 0.5}) as span:
        pass
    if exporter.export([span]) is SpanExportResult.SUCCESS:
        print(name)
    exporter.shutdown()
