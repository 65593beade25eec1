//! Both sides of replication of MySQL and MariaDB: their statements, old and new.
//!
//! MariaDB has named connections, of which `SHOW REPLICA STATUS` shows only the unnamed one; MySQL
//! shows all of its channels. Names of statements changed in MySQL 8.0.22, where the old ones are
//! gone since 8.4, and in MariaDB 10.5.

use std::collections::HashMap;

use super::member::OwnMember;
use super::mysql::MysqlSession;
use super::stream::ProbeError;
use super::{QueryResult, ReplicaLink};

/// Everything that the server replicates from, one row per connection or channel.
pub(super) fn sources(
    session: &mut MysqlSession,
    version: &str,
) -> Result<QueryResult, ProbeError> {
    if version.contains("MariaDB") {
        return session.query("SHOW ALL SLAVES STATUS");
    }
    newest(session, "SHOW REPLICA STATUS", "SHOW SLAVE STATUS")
}

/// Replicas that are connected now. Empty if the user may not see them: that needs REPLICATION
/// SLAVE, in MariaDB REPLICATION MASTER ADMIN.
pub(super) fn replicas(session: &mut MysqlSession) -> Result<Vec<ReplicaLink>, ProbeError> {
    match newest(session, "SHOW REPLICAS", "SHOW SLAVE HOSTS") {
        Ok(found) => Ok(found.by_name().map(|row| replica(&row)).collect()),
        Err(ProbeError::Refused(_)) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

pub(super) fn own_member(settings: &HashMap<String, String>) -> OwnMember {
    let is_read_only = settings.get("read_only").map(|flag| !matches!(flag.as_str(), "0" | "OFF"));
    OwnMember { is_read_only, ..OwnMember::default() }
}

/// The first row by name, owned.
pub(super) fn owned(result: &QueryResult) -> HashMap<String, String> {
    let row = result.by_name().next().unwrap_or_default();
    row.into_iter().map(|(name, cell)| (name.to_owned(), cell.to_owned())).collect()
}

fn newest(session: &mut MysqlSession, new: &str, old: &str) -> Result<QueryResult, ProbeError> {
    match session.query(new) {
        Err(ProbeError::Refused(words)) if words.contains("syntax") => session.query(old),
        other => other,
    }
}

/// The host is empty unless the replica sets `report_host`.
fn replica(row: &HashMap<&str, &str>) -> ReplicaLink {
    let get = |name: &str| row.get(name).copied().unwrap_or_default();
    let [host, port, id] = ["Host", "Port", "Server_id"].map(get);
    let id = if id.is_empty() { get("Server_Id") } else { id };
    let peer = if host.is_empty() { format!("server {id}") } else { format!("{host}:{port}") };
    ReplicaLink { role: "replica", peer, is_running: Some(true), ..ReplicaLink::default() }
}

/// Address of a source, with the name of its connection or channel if it has one.
pub(super) fn peer(row: &HashMap<&str, &str>) -> String {
    let get = |names: [&str; 2]| names.iter().find_map(|name| row.get(name).copied());
    let host = get(["Source_Host", "Master_Host"]).unwrap_or_default();
    let port = get(["Source_Port", "Master_Port"]).unwrap_or_default();
    match get(["Connection_name", "Channel_Name"]).filter(|name| !name.is_empty()) {
        Some(name) => format!("{host}:{port} {name}"),
        None => format!("{host}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_connections_and_channels_are_told_apart() {
        let row = HashMap::from([("Master_Host", "db1"), ("Master_Port", "3306")]);
        assert_eq!(peer(&row), "db1:3306");
        let named = [row, HashMap::from([("Connection_name", "east")])];
        assert_eq!(peer(&named.into_iter().flatten().collect()), "db1:3306 east");
        let channel =
            [("Source_Host", "db2"), ("Source_Port", "3307"), ("Channel_Name", "group_b")];
        assert_eq!(peer(&HashMap::from(channel)), "db2:3307 group_b");
    }

    #[test]
    fn replica_without_a_reported_host_is_named_by_its_number() {
        let row = HashMap::from([("Server_id", "2"), ("Host", ""), ("Port", "3306")]);
        assert_eq!(replica(&row).peer, "server 2");
        let row = HashMap::from([("Server_Id", "2"), ("Host", "db3"), ("Port", "3306")]);
        assert_eq!(replica(&row).peer, "db3:3306");
    }
}
