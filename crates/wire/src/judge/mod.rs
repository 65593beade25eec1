//! Interpretation: a verdict for each tier and for the whole capture, with its evidence.

mod evidence;
mod live;
mod report;
mod rules;
mod usl;

pub use evidence::Evidence;
pub use live::RipeSlice;
pub use report::{Quantiles, Report, SliceReport, TierReport, UrlReport};
pub use rules::Verdict;
pub use usl::{Usl, UslAnswer};
