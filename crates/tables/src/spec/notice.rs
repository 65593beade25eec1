//! `notice`: messages to receivers; one row at each change of state.

table! {
    /// Notices of incidents to people and other systems; the newest row of a `notice_id` is
    /// current.
    Notice, NoticeRows = "notice";
    grain: "one row per notice and change of state";
    source: "weir";
    sort: [ts];
    ids: [notice_id, incident_id];
    1 ts: Time = "When the state changed.";
    2 host: Text = "The host of the hub that sends.";
    3 notice_id: Text = "Constant over retries and restarts; the `id` of a webhook's body.";
    4 incident_id: Text = "The incident; empty for a test.";
    5 kind: Text = "page, mail, ack, resolved or test.";
    6 receiver: Text = "The receiver's name in the configuration.";
    7 person: OptText = "The person; NULL when the receiver was not chosen for one.";
    8 state: Text = "queued, sending, sent, uncertain (sent or not: weir ended in between), failed, superseded or silenced.";
    9 attempt: Int = "Attempts until now.";
    10 is_repeat: Flag = "Whether an earlier attempt may have arrived; the message says so.";
    11 answer: OptText = "What the receiver answered, or why it could not be sent; NULL before the first attempt.";
    12 latency_seconds: OptFloat = "From the start of the attempt to the receiver's answer; NULL before it.";
}
