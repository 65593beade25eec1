//! What a fault is, and the list of all.

use std::collections::BTreeMap;
use std::fs::File;

use crate::error::{DrillError, Result};
use crate::scene::Scene;
use crate::{
    balance, cascades, disks, edge, faults, fleet, hops, limits, lines, names, packets, pairs,
    stores, way,
};

/// A fault: how it is made, with which parameters, and what it must be called.
pub struct Fault {
    /// What it is called; the words of a command line joined by spaces.
    pub name: &'static str,
    /// For each thing that is wrong the rules that name it rightly; none when nothing must page or mail.
    pub rules: &'static [&'static [&'static str]],
    /// What can be chosen, in the order in which it is drawn.
    pub parameters: &'static [Parameter],
    /// Programs that it needs besides `ip`.
    pub tools: &'static [&'static str],
    /// Builds the scene while nothing is wrong.
    pub(crate) set: fn(&mut Scene) -> Result<()>,
    /// Makes the fault.
    pub(crate) inject: fn(&mut Scene) -> Result<Held>,
}

/// What must stay open for the fault to stay.
pub type Held = Option<File>;

/// A number that decides how bad it is.
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// The least and the greatest.
    pub range: (u64, u64),
    /// What it is, with its unit.
    pub doc: &'static str,
}

/// A parameter.
pub(crate) const fn of(name: &'static str, from: u64, to: u64, doc: &'static str) -> Parameter {
    Parameter { name, range: (from, to), doc }
}

/// All of them, pairs and what is no fault last.
pub fn all() -> impl Iterator<Item = &'static Fault> {
    let single = faults::FAULTS.iter().chain(limits::FAULTS).chain(hops::FAULTS);
    let single = single
        .chain(way::FAULTS)
        .chain(balance::FAULTS)
        .chain(stores::FAULTS)
        .chain(disks::FAULTS)
        .chain(lines::FAULTS)
        .chain(stores::MORE)
        .chain(packets::FAULTS)
        .chain(names::FAULTS)
        .chain(fleet::FAULTS)
        .chain(edge::FAULTS);
    let several = pairs::FAULTS.iter().chain(cascades::FAULTS);
    single.chain(several).chain(faults::NONE).chain(cascades::NONE).chain(lines::NONE)
}

/// The fault of that name; words may be joined by `-`.
pub fn named(name: &str) -> Option<&'static Fault> {
    let plain = |text: &str| text.to_lowercase().replace([':', ','], "").replace(' ', "-");
    all().find(|fault| plain(fault.name) == plain(name))
}

/// Refuses parameters that the fault does not have, and values that make no sense.
pub(crate) fn check_parameters(
    fault: &str,
    parameters: &[Parameter],
    given: &BTreeMap<String, u64>,
) -> Result<()> {
    for (name, value) in given {
        let Some(known) = parameters.iter().find(|one| one.name == name) else {
            let names: Vec<&str> = parameters.iter().map(|one| one.name).collect();
            let hint = if names.is_empty() { "it has none".into() } else { names.join(", ") };
            let message = format!("cannot make `{}`: it has no parameter `{name}`", fault);
            return Err(DrillError::new(message).hint(hint));
        };
        let (from, to) = known.range;
        if !(from..=to).contains(value) {
            let what = format!("cannot make `{}` with {name} = {value}", fault);
            return Err(DrillError::new(format!("{what}: it is from {from} to {to}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_parameters_have_room() {
        let mut names: Vec<&str> = all().map(|fault| fault.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for fault in all() {
            assert_eq!(named(fault.name).map(|found| found.name), Some(fault.name));
            let dashed = fault.name.replace(' ', "-").replace([',', ':'], "");
            assert_eq!(named(&dashed).map(|found| found.name), Some(fault.name), "{dashed}");
            for Parameter { name, range: (from, to), doc } in fault.parameters {
                assert!(from < to && !doc.is_empty(), "{}: {name}", fault.name);
            }
        }
    }
}
