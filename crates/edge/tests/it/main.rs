//! The edge between real sockets: backends that fail in every way, clients that attack, and the rows that tell of it.

mod acme;
mod attacks;
mod backends;
mod beacons;
mod canary;
mod changes;
mod failures;
mod half_close;
mod haproxy;
mod lab;
mod limits;
mod proxying;
mod streams;
mod tls;
