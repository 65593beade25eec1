//! `resolver_probe`: how long each name server of `/etc/resolv.conf` takes to answer.

table! {
    /// One question to each name server of `/etc/resolv.conf`, as a program's lookup would ask it.
    ResolverProbe, ResolverProbeRows = "resolver_probe";
    grain: "one row per name server and look, every 10 s";
    source: "a DNS query over UDP (RFC 1035), /etc/resolv.conf";
    sort: [host, server_address, ts];
    1 ts: Time = "When the question was sent.";
    2 host: Text = "The host that asked.";
    3 server_address: Text = "The name server.";
    4 position: Int = "Its place in the file, from 1. A lookup asks the first one first, and the next after `timeout_seconds`.";
    5 duration_seconds: OptFloat = "Until the answer came; NULL when none came.";
    6 response_code: OptText = "NOERROR, SERVFAIL, REFUSED …; NULL when no answer came.";
    7 error: OptText = "Why no answer came; NULL when one did.";
    8 timeout_seconds: Int = "How long a lookup of this host waits for one server: `options timeout:`, 5 when it is not set.";
    9 attempts: Int = "How often it goes through the list: `options attempts:`, 2 when it is not set.";
    10 server_count: Int = "Name servers in the file, of which the C library uses three.";
}
