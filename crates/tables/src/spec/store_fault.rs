//! `store_fault`: problems of a hub's own files and log.

table! {
    /// Problems of a hub's own files and log: damaged or missing files, lost records, and expired
    /// rows that are held back because the clock jumped.
    StoreFault, StoreFaultRows = "store_fault";
    grain: "one row per problem every 10 s while it lasts, at most 20";
    source: "weir";
    sort: [host, kind, path, ts];
    1 ts: Time = "When the problem existed.";
    2 host: Text = "The host of the hub.";
    3 kind: Text = "`missing_file`, `damaged_file`, `damaged_log` or `retention_held`.";
    4 path: Text = "The file, below the data directory; empty where the problem is not about one file.";
    5 message: Text = "What is wrong.";
    6 fault_count: Int = "Problems of the store at that time, including those without a row.";
}
