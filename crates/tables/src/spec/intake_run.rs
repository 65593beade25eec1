//! `intake_run`: what third-party shippers sent, by sender and outcome.

table! {
    /// What third-party shippers sent: kept, known already, refused or lost, by sender and reason.
    IntakeRun, IntakeRunRows = "intake_run";
    grain: "one row per protocol, peer, outcome and reason every 10 s, while there is something to count";
    source: "intake";
    sort: [host, protocol, ts];
    1 ts: Time = "When the 10 s ended.";
    2 host: Text = "The host of the hub that counted.";
    3 protocol: Text = "The protocol, such as `elasticsearch` or `syslog_udp`.";
    4 peer: Text = "The sender's address without port; `other` beyond the limit of senders, `kernel` for what the kernel dropped; for scraping the target, 0.0.0.0 without an answer.";
    5 outcome: Text = "`kept` (durable), `known` (sent again, kept before), `rejected` (kept raw in `reject`), `refused` (with an error, so the sender still has it) or `lost` (dropped by the kernel, or discarded because the protocol cannot refuse it). For scraping, `refused` means that nothing of the response was kept.";
    6 reason: OptText = "Why, in few words: `no_login`, `too_large`, `busy`, `invalid_json`, `too_long`, `socket_buffer`; NULL for what was kept.";
    7 batches: Int = "Requests, or groups of frames or datagrams, that this happened to, whole or in part.";
    8 rows: Int = "Rows, lines or samples; 0 when unknown.";
    9 bytes: Int = "Bytes received, uncompressed.";
}
