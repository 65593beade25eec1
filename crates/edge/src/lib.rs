//! Load balancer and beacon collector whose every request is a row.
//!
//! ```text
//!   accept ─► PROXY header, TLS ─► HTTP/1.1, HTTP/2 ─► check ─┬─► beacon ─────────────► row
//!                                                             └─► choose ─► backend ──► row
//!   sweep, 20 Hz: waits for backends, idle connections, stalls, panic, certificates, delivery of rows
//! ```
//! HTTP is hyper's, TLS is rustls', the runtime is tokio's with one thread a core. What is here is what they leave open: who
//! gets a request, when to stop waiting, what may be tried again, and a record of all of it.

mod acme;
mod backend;
mod backend_tls;
mod beacon;
mod body;
mod check;
mod conn;
mod connection;
mod destination;
mod difference;
mod digest;
mod edge;
mod error;
mod haproxy;
mod head_copy;
mod headers;
mod idle;
mod listen;
mod pool;
mod proxy;
mod proxy_header;
mod record;
mod relay;
mod report;
mod service;
mod serving;
mod settings;
mod state;
mod thread;
mod tickets;
mod time;
mod tls;
mod tunnel;
mod upstream;
mod waits;
mod worker;

pub use acme::settings::{AcmeChallenge, AcmeDirectory, AcmeNames, AcmeSettings};
pub use beacon::SCRIPT;
pub use destination::{BackendSettings, Protocol, RouteSettings};
pub use edge::{Edge, Inherited};
pub use error::EdgeError;
pub use haproxy::{Haproxy, HaproxyChange, HaproxyOrder, HaproxyServer};
pub use record::Sink;
pub use settings::{
    BackendTlsSettings, Balance, CertificateFiles, CheckKind, CheckSettings, Limits,
    ListenerSettings, ProxyHeader, Settings, UpstreamSettings,
};
pub use state::{BackendState, CertificateState, EdgeState, Learnt, LearntBackend, ListenerState};
pub use tickets::TicketKey;
pub use tls::check_certificates;
