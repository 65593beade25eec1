//! The edge between real sockets: failing backends, attacking clients, and the resulting rows.

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
