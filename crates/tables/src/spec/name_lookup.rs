//! `name_lookup`: DNS answers for the names that this host's proxies send requests to.

table! {
    /// What each name server answers for the names that the proxies' configurations on this host
    /// look up, as the C library would query them.
    NameLookup, NameLookupRows = "name_lookup";
    grain: "one row per name and name server every 10 s, at most 24 names";
    source: "DNS queries over UDP (RFC 1035) for A and AAAA to the servers of /etc/resolv.conf; names of `proxy_pass`, `upstream`, `server` of nginx and HAProxy, ProxyPass of Apache";
    sort: [host, name, ts];
    1 ts: Time = "When the query was sent.";
    2 host: Text = "The host that sent it.";
    3 name: Text = "The name as the configuration has it, in lower case.";
    4 query_name: Text = "The name that was queried last: with a domain of `search` where the C library appends one.";
    5 server_address: Text = "The name server.";
    6 position: Int = "Its position in /etc/resolv.conf, from 1; 0 for a server of nginx' `resolver`.";
    7 program: Text = "nginx, haproxy or apache: whose configuration has the name.";
    8 config_file: Text = "The file that has it.";
    9 config_line: Int = "The line.";
    10 addresses: Text = "The addresses in the answer, sorted, joined by `, `; empty when there were none.";
    11 duration_seconds: OptFloat = "Time until both answers had come; NULL when one did not within 2 s.";
    12 response_code: OptText = "NOERROR, NXDOMAIN, SERVFAIL …; NULL without an answer.";
    13 server_count: Int = "Name servers in the file.";
}
