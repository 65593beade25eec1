//! Settings that are being tried (`weir tune --try`): their journal on disk, and its changes as rows of `setting_trial`.

mod events;
pub mod journal;
pub mod setting;

pub use events::{TrialEvents, elsewhere};
