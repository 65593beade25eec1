//! SQL engine over rows in memory and in data files. The only crate that names DataFusion.

mod columns;
mod condition;
mod dictionary_filter;
mod distributed;
mod drop_unused_ordering;
mod explain;
mod file_access;
mod file_reader;
mod forecast;
mod functions;
mod index_probe;
mod limits;
mod options;
mod peer_set;
mod peers;
mod plan_cache;
mod postgres;
mod query;
mod remote_scans;
mod reverse_scan;
mod row_condition;
mod row_hash;
mod spilling_joins;
mod table_provider;
mod tables;

pub use condition::Condition;
pub use distributed::{QueryChannel, QueryWorker, query_channel};
pub use forecast::{Forecast, Reading};
pub use limits::{EndedQuery, QueryEnd, SpillSpace};
pub use options::{Asker, EngineOptions, QueryLimits};
pub use peer_set::PeerSet;
pub use peers::{Peer, PeerAsk, PeerFailure, PeerRows, Peers};
pub use postgres::Described;
pub use query::{QueryEngine, QueryRequest, QueryResult};
pub use row_condition::{RowCondition, row_conditions};
pub use row_hash::row_hashes;
