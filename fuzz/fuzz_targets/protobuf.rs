//! OTLP and remote write bodies: each gets a response, and a repeated one stores nothing again.
//! The first byte selects the endpoint, the rest is the body.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_fuzz::{intake, post, runtime};

const ENDPOINTS: [[&str; 2]; 6] = [
    ["/v1/logs", "application/x-protobuf"],
    ["/v1/traces", "application/x-protobuf"],
    ["/v1/metrics", "application/x-protobuf"],
    ["/v1/logs", "application/json"],
    ["/api/v1/write", "application/x-protobuf"],
    ["/api/v1/write", "application/x-protobuf;proto=io.prometheus.write.v2.Request"],
];

fuzz_target!(|bytes: &[u8]| {
    let Some((first, body)) = bytes.split_first() else { return };
    let [path, kind] = ENDPOINTS[usize::from(*first) % ENDPOINTS.len()];
    let (hub, intake) = intake();
    let send = || runtime().block_on(post(&intake, path, &[("content-type", kind)], body));
    let (status, rows) = (send(), hub.rows());
    assert!(!status.is_server_error(), "{status}");
    assert_eq!((send(), hub.rows()), (status, rows), "a repeated body is stored again");
});
