//! The edge between real sockets: failing backends, attacking clients, and the resulting rows.

mod acme;
mod advisories;
mod backends;
mod beacons;
mod between_hops;
mod canary;
mod changes;
mod client_address;
mod early_answers;
mod failures;
mod h2_answers;
mod h2_attacks;
mod h2_backends;
mod h2_frames;
mod half_close;
mod hops;
mod lab;
mod limits;
#[path = "../../../resolver/tests/it/name_server.rs"]
mod name_server;
mod names;
mod odd_answers;
mod proxying;
mod slow;
mod streams;
mod tls;
mod vectors;
