//! `intake_batch`: identities of stored batches, so that repeats are recognized after a restart.

table! {
    /// Identities that shippers gave to their batches; written in the same step as the rows
    /// themselves.
    IntakeBatch, IntakeBatchRows = "intake_batch";
    grain: "one row per batch that carried identities (bulk `_id`, chunk id, `Idempotency-Key`)";
    source: "intake";
    sort: [ts];
    1 ts: Time = "When the batch was stored.";
    2 host: Text = "The host of the hub that stored it.";
    3 protocol: Text = "The protocol, such as `elasticsearch`.";
    4 peer: Text = "The sender's address without port.";
    5 rows: Int = "Rows of the batch that carried an identity.";
    6 ids: Text = "16 hex digits for each identity: a hash of protocol, identity and content.";
}
