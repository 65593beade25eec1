//! Load balancer and beacon collector whose every request is a row.
//!
//! ```text
//!   accept ─► PROXY header, TLS ─► HTTP/1.1, HTTP/2 ─► check ─┬─► beacon ─────────────► row
//!                                                             └─► choose ─► backend ──► row
//!   sweep, 20 Hz: response deadlines, idle connections, stalls, panic, certificates, rows
//! ```
//! HTTP is hyper's, TLS is rustls', the runtime is tokio's with one thread per core. This crate
//! decides what they leave open: which backend gets a request, how long to wait, what may be
//! retried; and it records all of it.

mod acme;
mod admin;
mod beacon;
mod client;
mod edge;
mod error;
mod live;
mod local_executor;
mod name_refresh;
mod names;
mod pool;
mod proxy;
mod record;
mod settings;
mod shared;
mod thread;
mod time;
mod tls;
mod upstream;
mod worker;

pub use acme::settings::{AcmeChallenge, AcmeDirectory, AcmeNames, AcmeSettings};
pub use admin::state::{
    BackendState, CertificateState, EdgeState, LearntBackend, LearntState, ListenerState,
};
pub use beacon::SCRIPT;
pub use edge::{Edge, InheritedState};
pub use error::EdgeError;
pub use record::Sink;
pub use settings::destination::{BackendSettings, Protocol, RouteSettings};
pub use settings::listener::ListenerSettings;
pub use settings::{
    BackendTlsSettings, Balance, CertificateFiles, CheckKind, CheckSettings, Limits, ProxyHeader,
    Settings, UpstreamSettings,
};
pub use tls::check_certificates;
pub use tls::session_tickets::TicketKey;
