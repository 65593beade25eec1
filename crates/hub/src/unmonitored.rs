//! Database servers that listen here and that the configuration does not name: for the start's
//! notes, each with the grant that a monitoring user needs (docs/databases.md).

use weir_collect::host::ListenerSummary;
use weir_config::databases::NamedDatabase;

/// Systems by the name of their processes, and the statements that create a user.
const SERVERS: &[(&str, &str, &str)] = &[
    ("postgres", "postgresql", "create user weir password '…'; grant pg_monitor to weir;"),
    ("mysqld", "mysql", MYSQL_GRANT),
    ("mariadbd", "mysql", MYSQL_GRANT),
    ("redis-server", "redis", "ACL SETUSER weir on >… +info +slowlog|get"),
    ("valkey-server", "redis", "ACL SETUSER weir on >… +info +slowlog|get"),
];
const MYSQL_GRANT: &str = "create user weir@localhost identified by '…'; \
    grant process, replication client on *.* to weir@localhost;";
/// MySQL's X protocol and admin port.
const OTHER_PORTS: [u16; 2] = [33060, 33062];

/// A note for each system that is not monitored.
pub(crate) fn notes(listeners: &[ListenerSummary], databases: &[NamedDatabase]) -> Vec<String> {
    let mut notes: Vec<String> =
        listeners.iter().filter_map(|listener| note(listener, databases)).collect();
    notes.dedup();
    notes
}

fn note(listener: &ListenerSummary, databases: &[NamedDatabase]) -> Option<String> {
    let name = listener.process_name.as_deref()?;
    let (_, system, grant) = SERVERS.iter().find(|(process, ..)| *process == name)?;
    let is_named = databases.iter().any(|known| {
        known.system() == *system && known.port().is_none_or(|port| port == listener.port)
    });
    if is_named || OTHER_PORTS.contains(&listener.port) {
        return None;
    }
    let address = match listener.address.as_str() {
        "0.0.0.0" | "::" | "::1" => "127.0.0.1",
        address => address,
    };
    Some(format!(
        "{name} on port {port} is not monitored (locks, slow statements, connections); to change that:\n\
         \x20         {grant}\n\
         \x20         [[databases]] system = \"{system}\", address = \"{address}:{port}\", \
         password_file = \"/etc/weir/{system}-password\"",
        port = listener.port
    ))
}
