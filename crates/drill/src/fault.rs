//! What a fault is: how it is made, with which parameters, and which rules must name it.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::RangeInclusive;

use crate::error::{DrillError, Result};
use crate::testbed::TestBed;

/// A fault that a [`TestBed`] can have.
pub struct Fault {
    /// Name, as on the command line: words joined by spaces.
    pub name: &'static str,
    /// Acceptable rules, one group per problem; empty when nothing must page or mail.
    pub rules: &'static [&'static [&'static str]],
    /// Parameters, in the order in which they are drawn from the seed.
    pub parameters: &'static [Parameter],
    /// Programs it needs besides `ip`.
    pub tools: &'static [&'static str],
    /// Builds the testbed while nothing is wrong.
    pub(crate) set: fn(&mut TestBed) -> Result<()>,
    /// Makes the fault.
    pub(crate) inject: fn(&mut TestBed) -> Result<FaultGuard>,
}

/// A file that must stay open for the fault to last.
pub type FaultGuard = Option<File>;

/// A number that decides how severe a fault is.
pub struct Parameter {
    /// Name, as on the command line.
    pub name: &'static str,
    /// Allowed values.
    pub range: RangeInclusive<u64>,
    /// Meaning, with its unit.
    pub doc: &'static str,
}

/// Shorthand for the lists of faults.
pub(crate) const fn parameter(
    name: &'static str,
    range: RangeInclusive<u64>,
    doc: &'static str,
) -> Parameter {
    Parameter { name, range, doc }
}

impl Parameter {
    /// Rejects values in `given` whose name or range does not match any of the `parameters` of
    /// the fault called `fault`.
    pub(crate) fn check(
        fault: &str,
        parameters: &[Self],
        given: &BTreeMap<String, u64>,
    ) -> Result<()> {
        for (name, value) in given {
            let Some(known) = parameters.iter().find(|one| one.name == name) else {
                let names: Vec<&str> = parameters.iter().map(|one| one.name).collect();
                let hint = if names.is_empty() { "it has none".into() } else { names.join(", ") };
                let message = format!("cannot make `{fault}`: it has no parameter `{name}`");
                return Err(DrillError::new(message).hint(hint));
            };
            if !known.range.contains(value) {
                let (from, to) = (known.range.start(), known.range.end());
                let what = format!("cannot make `{fault}` with {name} = {value}");
                return Err(DrillError::new(format!("{what}: it is from {from} to {to}")));
            }
        }
        Ok(())
    }
}
