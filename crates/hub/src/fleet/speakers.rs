//! An agent may send rows of the host that it joined as, and of hosts that `link.speaks_for`
//! lists. Tables that the hub writes are closed to every agent.

use std::collections::BTreeSet;

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use weir_process::failure::{EXIT_CONFIG, Failure};
use weir_store::StoreError;
use weir_tables::{Parcel, is_open_to_agents, matches_wildcard};

/// Exceptions from the rule that an agent speaks for its own host.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpeakerList(Vec<(String, String)>);

impl SpeakerList {
    /// From `link.speaks_for`: each entry is `AGENT: HOST`.
    pub(crate) fn parse(entries: &[String]) -> Result<Self, Failure> {
        let pair = |entry: &String| {
            let (agent, host) = entry.split_once(':')?;
            let (agent, host) = (agent.trim(), host.trim());
            (!agent.is_empty() && !host.is_empty()).then(|| (agent.to_owned(), host.to_owned()))
        };
        let pairs = entries.iter().map(|entry| {
            pair(entry).ok_or_else(|| {
                Failure::new(format!("cannot read `{entry}` of `link.speaks_for`: it has no host"))
                    .hint("write it as \"AGENT: HOST\"; `*` in HOST stands for any characters")
                    .code(EXIT_CONFIG)
            })
        });
        Ok(Self(pairs.collect::<Result<_, _>>()?))
    }

    /// Whether the agent may send rows of the host.
    pub(crate) fn allows(&self, agent: &str, host: &str) -> bool {
        let mut listed = self.0.iter().filter(|(name, _)| name == agent);
        host == agent || listed.any(|(_, pattern)| matches_wildcard(pattern, host))
    }

    /// Refuses a parcel with rows of other hosts, or of tables that only the hub writes.
    ///
    /// # Errors
    /// `BadParcel`.
    pub(crate) fn check(&self, agent: &str, parcel: &Parcel) -> Result<(), StoreError> {
        check_tables(parcel)?;
        let hosts = parcel.batches.iter().flat_map(|batch| hosts(&batch.rows));
        let hosts: BTreeSet<&str> = hosts.collect();
        match hosts.into_iter().find(|host| !self.allows(agent, host)) {
            None => Ok(()),
            Some(host) => {
                let text =
                    format!("cannot take rows of the host `{host}` from the agent `{agent}`");
                Err(StoreError::bad_parcel(text).with_hint(format!(
                    "if it speaks for that host, add \"{agent}: {host}\" to `link.speaks_for` on the hub"
                )))
            }
        }
    }
}

/// Refuses rows of tables that only the hub writes.
///
/// # Errors
/// `BadParcel`.
pub(crate) fn check_tables(parcel: &Parcel) -> Result<(), StoreError> {
    let closed = parcel.batches.iter().find(|batch| !is_open_to_agents(batch.table));
    closed.map_or(Ok(()), |batch| {
        let name = batch.table.name;
        Err(StoreError::bad_parcel(format!("cannot take rows of `{name}`: only the hub writes it")))
    })
}

/// Hosts of the rows; rows of one host mostly follow each other.
fn hosts(rows: &RecordBatch) -> BTreeSet<&str> {
    let column = rows.column_by_name("host").and_then(|column| column.as_string_opt::<i32>());
    let mut found = BTreeSet::new();
    let mut last = None;
    for host in column.into_iter().flat_map(|column| (0..column.len()).map(|at| column.value(at))) {
        if last != Some(host) {
            found.insert(host);
            last = Some(host);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use weir_tables::{Batch, Finding, Micros, Rows, Sysctl, SysctlRows, TABLES};

    use super::*;

    fn parcel(hosts: &[&str]) -> Parcel {
        let mut rows = SysctlRows::default();
        for host in hosts {
            rows.push(&Sysctl { ts: Micros(5), host, name: "a", value: "b", ..Sysctl::default() });
        }
        let batch = Batch { table: SysctlRows::SPEC, rows: rows.finish() };
        Parcel { range: None, batches: vec![batch] }
    }

    #[test]
    fn agent_speaks_for_its_own_name_and_for_listed_hosts() {
        let entries = ["relay: db*.example".to_owned(), "web2:web3".to_owned()];
        let list = SpeakerList::parse(&entries).expect("two entries");
        assert!(list.check("web1", &parcel(&["web1", "web1"])).is_ok());
        assert!(list.check("relay", &parcel(&["db1.example", "relay"])).is_ok());
        assert!(list.check("web2", &parcel(&["web3"])).is_ok());
        for (agent, host) in [
            ("web1", "db1-victim"),
            ("web1", "WEB1"),
            ("web1", ""),
            ("web1", "web1 "),
            ("relay", "db1.example.org"),
            ("web3", "web2"),
        ] {
            let error = list.check(agent, &parcel(&[agent, host])).expect_err(host);
            assert!(
                error.message.contains(&format!("`{host}` from the agent `{agent}`")),
                "{error}"
            );
        }
        for bad in ["relay", "relay:", ": db1"] {
            assert!(SpeakerList::parse(&[bad.to_owned()]).is_err(), "{bad}");
        }
    }

    #[test]
    fn tables_of_the_hub_are_closed_to_agents() {
        let closed = ["finding", "judgement", "threshold_proposal", "agent_link", "output_run"];
        for table in TABLES.iter().copied() {
            let rows = RecordBatch::new_empty(table.schema());
            let parcel = Parcel { range: None, batches: vec![Batch { table, rows }] };
            if closed.contains(&table.name) {
                assert!(check_tables(&parcel).is_err(), "{}", table.name);
            }
        }
        assert!(!is_open_to_agents(&Finding::SPEC));
        assert!(check_tables(&parcel(&["web1"])).is_ok());
    }
}
