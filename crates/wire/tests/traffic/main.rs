//! Traffic of known truth: what the crate says of it is compared with what happened.

mod compat;
