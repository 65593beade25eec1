//! `resolver_probe`: response time of each name server of `/etc/resolv.conf`.

table! {
    /// One query to each name server of `/etc/resolv.conf`, as a program's lookup would send it.
    ResolverProbe, ResolverProbeRows = "resolver_probe";
    grain: "one row per name server and sample, every 10 s";
    source: "a DNS query over UDP (RFC 1035), /etc/resolv.conf";
    sort: [host, server_address, ts];
    1 ts: Time = "When the query was sent.";
    2 host: Text = "The host that queried it.";
    3 server_address: Text = "The name server.";
    4 position: Int = "Its position in the file, from 1. A lookup tries the first one, then the next after `timeout_seconds`.";
    5 duration_seconds: OptFloat = "Response time; NULL without an answer.";
    6 response_code: OptText = "NOERROR, SERVFAIL, REFUSED …; NULL without an answer.";
    7 error: OptText = "Why there was no answer; NULL with one.";
    8 timeout_seconds: Int = "How long a lookup on this host waits for one server: `options timeout:`, 5 when it is not set.";
    9 attempts: Int = "How often it retries the list: `options attempts:`, 2 when it is not set.";
    10 server_count: Int = "Name servers in the file; the C library uses the first three.";
}
