//! weir from the outside: the program as users run it, against real servers, real files and real kills.

mod bad_input;
mod doctor;
mod faults;
mod harness;
mod link;
mod netns;
mod query;
mod torture;
mod up;
