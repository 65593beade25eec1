//! `edge_certificate`: certificates that the edge obtains by itself, every minute and at each change.

table! {
    /// A certificate that `weir edge` obtains from an authority (ACME): whether it is there, how long, why it is not renewed.
    EdgeCertificate, EdgeCertificateRows = "edge_certificate";
    grain: "one row per certificate a minute, and one after each attempt";
    source: "`weir edge`, its directory `edge.acme_dir`; RFC 8555";
    sort: [names, ts];
    1 ts: Time = "When it was looked at.";
    2 host: Text = "The host of the edge.";
    3 names: Text = "The names that it shall be for, parted by spaces.";
    4 authority: Text = "The host of the authority's directory.";
    5 path: Text = "The file that holds it and its key.";
    6 state: Text = "`valid`, `due` (for renewal), `ended`, or `missing`.";
    7 not_before: OptTime = "When it began; NULL when missing.";
    8 not_after: OptTime = "When it ends; NULL when missing.";
    9 failures: Int = "Attempts in a row that brought none.";
    10 failure: OptText = "Why the last of them did not; NULL when none failed.";
    11 next_attempt_ts: Time = "When it is tried or renewed next.";
}
