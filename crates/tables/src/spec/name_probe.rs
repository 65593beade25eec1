//! `name_probe`: DNS answers for the names that this host serves.

table! {
    /// What the name server answers for each name that the servers' configurations on this host
    /// serve.
    NameProbe, NameProbeRows = "name_probe";
    grain: "one row per name and minute, at most 64 names";
    source: "DNS queries over UDP (RFC 1035) for A and AAAA to the first server of /etc/resolv.conf; names of nginx' server_name";
    sort: [host, name, ts];
    1 ts: Time = "When the query was sent.";
    2 host: Text = "The host that sent the query and serves the name.";
    3 name: Text = "The name, in lower case.";
    4 server_address: Text = "The name server.";
    5 addresses: Text = "The addresses in the answer, sorted, joined by `, `; empty when there were none.";
    6 is_here: OptFlag = "Whether one of them is an address of this host; NULL without an answer.";
    7 ttl_seconds: OptInt = "How long the answer may be cached: the shortest TTL; NULL without an address.";
    8 response_code: OptText = "NOERROR, NXDOMAIN, SERVFAIL …; NULL without an answer.";
}
