//! The engine as its callers see it: answers and times in, changes of state out.

mod causes;
mod engine;
mod keys;
mod roots;
mod slo;
