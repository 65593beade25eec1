//! Addresses of names with their TTL, as the C library would find them.
//!
//! The C library returns no TTL, and it returns half of the addresses without a word when a name
//! server fails for one of the two families. What it does otherwise is done here too: hosts(5),
//! `search` and `ndots` of resolv.conf(5), the next server after a failure, TCP after a truncated
//! answer. Names that DNS does not have are looked up by the C library itself, which may have other
//! sources (nsswitch.conf(5)).

mod config;
mod hosts;
mod known;
mod lookup;
mod message;
mod order;

pub use config::{ResolverConfig, SERVERS_MAX};
pub use known::KnownName;
pub use lookup::{FamilyAnswer, Lookup, Resolver};
pub use message::{Answer, HEADER_BYTES, RecordType, code_name, encode_question, parse_answer};
pub use order::prefers_ipv4;
