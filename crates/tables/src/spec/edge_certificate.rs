//! `edge_certificate`: certificates that the edge obtains by ACME, every minute and at each change.

table! {
    /// A certificate that `weir edge` obtains from an authority (ACME): state, validity, why
    /// renewal fails.
    EdgeCertificate, EdgeCertificateRows = "edge_certificate";
    grain: "one row per certificate a minute, and one after each attempt";
    source: "`weir edge`, its directory `edge.acme_dir`; RFC 8555";
    sort: [names, ts];
    1 ts: Time = "When the row was written.";
    2 host: Text = "The host of the edge.";
    3 names: Text = "The names that it is for, separated by spaces.";
    4 authority: Text = "The host of the authority's directory.";
    5 path: Text = "The file that holds it and its key.";
    6 state: Text = "`valid`, `due` (for renewal), `ended`, or `missing`.";
    7 not_before: OptTime = "When it became valid; NULL when missing.";
    8 not_after: OptTime = "When it expires; NULL when missing.";
    9 failures: Int = "Failed attempts in a row.";
    10 failure: OptText = "Why the last of them failed; NULL when none did.";
    11 next_attempt_ts: Time = "Time of the next attempt or renewal.";
}
