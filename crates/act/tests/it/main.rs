//! weir-act as a host sees it: lists and orders that must not run, runs, sockets, kills.

mod dry_runs;
mod hostile_lists;
mod hostile_orders;
mod hostile_values;
mod kills;
mod kit;
mod limits;
mod runs;
mod sockets;
