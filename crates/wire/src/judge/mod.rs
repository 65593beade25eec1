//! Interpretation: a verdict for each tier and for the whole capture, with its evidence.

mod connection_rules;
mod evidence;
mod live;
mod owner;
mod report;
mod rules;
mod thresholds;
mod url_report;
mod usl;

pub use evidence::Evidence;
pub use live::CompletedSlice;
pub use report::{Quantiles, Report, SliceReport, TierReport};
pub use rules::DelayVerdict;
pub use thresholds::{THRESHOLDS, Threshold};
pub use url_report::UrlReport;
pub use usl::{Usl, UslResult};
