//! Port names that tcpdump prints without `-nn`, from Debian's /etc/services.

/// Port of a name; only names common in web fleets.
pub(super) fn port(name: &[u8]) -> Option<u16> {
    let found = NAMES.binary_search_by(|(known, _)| known.as_bytes().cmp(name)).ok()?;
    Some(NAMES[found].1)
}

/// Sorted by name.
const NAMES: &[(&str, u16)] = &[
    ("amqp", 5672),
    ("amqps", 5671),
    ("bgp", 179),
    ("db-lsp", 17500),
    ("domain", 53),
    ("domain-s", 853),
    ("epmd", 4369),
    ("ftp", 21),
    ("ftp-data", 20),
    ("git", 9418),
    ("gmond", 8649),
    ("http", 80),
    ("http-alt", 8080),
    ("https", 443),
    ("imap", 143),
    ("imap2", 143),
    ("imaps", 993),
    ("kerberos", 88),
    ("ldap", 389),
    ("ldaps", 636),
    ("microsoft-ds", 445),
    ("ms-sql-s", 1433),
    ("mysql", 3306),
    ("mysql-proxy", 6446),
    ("netbios-ssn", 139),
    ("nfs", 2049),
    ("nrpe", 5666),
    ("nsca", 5667),
    ("openvpn", 1194),
    ("pop3", 110),
    ("pop3s", 995),
    ("postgresql", 5432),
    ("puppet", 8140),
    ("redis", 6379),
    ("rsync", 873),
    ("sip", 5060),
    ("smtp", 25),
    ("ssh", 22),
    ("submission", 587),
    ("submissions", 465),
    ("sunrpc", 111),
    ("svn", 3690),
    ("telnet", 23),
    ("webcache", 8080),
    ("webmin", 10000),
    ("xmpp-client", 5222),
    ("xmpp-server", 5269),
    ("zabbix-agent", 10050),
    ("zabbix-trapper", 10051),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_found() {
        assert!(NAMES.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert_eq!(port(b"http"), Some(80));
        assert_eq!(port(b"no-such-name"), None);
    }
}
