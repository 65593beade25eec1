//! All faults. A new one is an entry in one of the lists.

mod balance;
mod cascades;
mod databases;
mod disks;
mod dns;
mod edge;
mod errors;
mod fleet;
mod limits;
mod logs;
mod network;
mod packets;
mod pairs;
mod programs;
mod proxy;
mod services;
mod thin;

pub use dns::{NameServerOptions, serve_names};
pub use fleet::{RelayOptions, relay};

use crate::fault::Fault;

/// All faults; pairs and cascades come last, before the scenarios without a fault.
pub fn all() -> impl Iterator<Item = &'static Fault> {
    let single = services::FAULTS.iter().chain(limits::FAULTS).chain(proxy::FAULTS);
    let single = single
        .chain(network::FAULTS)
        .chain(balance::FAULTS)
        .chain(databases::FAULTS)
        .chain(disks::FAULTS)
        .chain(logs::FAULTS)
        .chain(databases::MORE_FAULTS)
        .chain(packets::FAULTS)
        .chain(dns::FAULTS)
        .chain(fleet::FAULTS)
        .chain(edge::FAULTS)
        .chain(errors::FAULTS)
        .chain(thin::FAULTS)
        .chain(programs::FAULTS);
    let several = pairs::FAULTS.iter().chain(cascades::FAULTS);
    let none = services::NO_FAULTS.iter().chain(cascades::NO_FAULTS).chain(logs::NO_FAULTS);
    let none = none.chain(programs::NO_FAULTS);
    single.chain(several).chain(none)
}

/// Finds a fault by name; the words of `name` may be joined by `-`.
pub fn named(name: &str) -> Option<&'static Fault> {
    all().find(|fault| normalize(fault.name) == normalize(name))
}

fn normalize(name: &str) -> String {
    name.to_lowercase().replace([':', ','], "").replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Parameter;

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
            for Parameter { name, range, doc } in fault.parameters {
                let is_wide = range.start() < range.end();
                assert!(is_wide && !doc.is_empty(), "{}: {name}", fault.name);
            }
        }
    }
}
