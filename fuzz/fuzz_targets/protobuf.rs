//! OTLP and remote write bodies: each gets a response, and a repeated one stores nothing again.
//! The first byte selects the endpoint, the rest is the body.

#![no_main]

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use weir_fuzz::CountingHub;
use weir_intake::{AccessRules, Intake, IntakeSettings, Sender};

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
    let settings = IntakeSettings {
        access: AccessRules::default(),
        host_names: Vec::new(),
        shared_key: None,
        body_bytes: 1 << 20,
        in_flight_bytes: 8 << 20,
        known: Duration::from_secs(600),
        elasticsearch_version: "8.19.0".into(),
    };
    let hub = Arc::new(CountingHub::default());
    let intake = Intake::new(hub.clone(), settings);
    let sender = Sender { address: IpAddr::V4(Ipv4Addr::LOCALHOST), has_certificate: false };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime of one thread");
    let send = || {
        let request = http::Request::post(path).header("content-type", kind).body(());
        let (parts, ()) = request.expect("a constant request").into_parts();
        let body = body.to_vec().into();
        runtime.block_on(intake.respond(parts, sender, async { Ok(body) })).status
    };
    let (status, rows) = (send(), hub.rows());
    assert!(!status.is_server_error(), "{status}");
    assert_eq!((send(), hub.rows()), (status, rows), "a repeated body is stored again");
});
