//! An intake without a store, and senders that need no socket.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use weir_intake::{AccessRules, BodySource, Intake, IntakeSettings, Sender};

use crate::CountingHub;

/// The address of every sender.
pub const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// An intake whose hub counts rows.
pub fn intake() -> (Arc<CountingHub>, Arc<Intake>) {
    intake_with(|_| ())
}

/// As [`intake`], with other settings.
pub fn intake_with(change: impl FnOnce(&mut IntakeSettings)) -> (Arc<CountingHub>, Arc<Intake>) {
    let mut settings = IntakeSettings {
        access: AccessRules::default(),
        host_names: Vec::new(),
        shared_key: None,
        nsca: None,
        checks: weir_intake::CheckRules::default(),
        body_bytes: 1 << 20,
        in_flight_bytes: 64 << 20,
        known: Duration::from_secs(600),
        elasticsearch_version: "8.19.0".into(),
    };
    change(&mut settings);
    let hub = Arc::new(CountingHub::default());
    (hub.clone(), Intake::new(hub, settings))
}

/// Runs one sender to its end.
pub fn runtime() -> Runtime {
    let runtime = Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime of one thread")
}

/// A body in one piece; `None` behind it.
struct WholeBody<'a>(Option<&'a [u8]>);

impl BodySource for WholeBody<'_> {
    async fn next(&mut self) -> Option<Result<bytes::Bytes, String>> {
        self.0.take().map(|body| Ok(body.to_vec().into()))
    }
}

/// Posts a body and returns the status.
pub async fn post(
    intake: &Arc<Intake>,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> http::StatusCode {
    let mut request = http::Request::post(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (parts, ()) = request.body(()).expect("a constant request").into_parts();
    let sender = Sender { address: PEER, has_certificate: false };
    intake.respond(parts, sender, WholeBody(Some(body))).await.status
}
