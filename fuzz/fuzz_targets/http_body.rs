//! Bodies of JSON lines, Loki, Elasticsearch's bulk and OTLP over gRPC, compressed or not: each gets
//! a response that is no server error. The first byte selects the endpoint, the second one the
//! coding.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_fuzz::{intake, post, runtime};

const ENDPOINTS: [[&str; 2]; 6] = [
    ["/intake/jsonl?source=a", "text/plain"],
    ["/loki/api/v1/push", "application/json"],
    ["/loki/api/v1/push", "application/x-protobuf"],
    ["/_bulk", "application/x-ndjson"],
    ["/logs/_doc", "application/json"],
    ["/opentelemetry.proto.collector.logs.v1.LogsService/Export", "application/grpc"],
];
const CODINGS: [&str; 5] = ["identity", "gzip", "deflate", "zstd", "snappy"];

fuzz_target!(|bytes: &[u8]| {
    let [endpoint, coding, body @ ..] = bytes else { return };
    let [path, kind] = ENDPOINTS[usize::from(*endpoint) % ENDPOINTS.len()];
    let coding = CODINGS[usize::from(*coding) % CODINGS.len()];
    let mut headers = vec![("content-type", kind), ("grpc-encoding", coding)];
    // A body of Loki's protobuf without a coding is compressed with snappy.
    if coding != CODINGS[0] {
        headers.push(("content-encoding", coding));
    }
    let (_hub, intake) = intake();
    let status = runtime().block_on(post(&intake, path, &headers, body));
    assert!(!status.is_server_error() || status == 501, "{status}");
});
