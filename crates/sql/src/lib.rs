//! Answers SQL over rows in memory and in data files. The only crate that names DataFusion.

mod columns;
mod condition;
mod explain;
mod far;
mod file_reader;
mod forecast;
mod functions;
mod guard;
mod joins_on_disk;
mod kept_plans;
mod newest_first;
mod options;
mod peer_set;
mod peers;
mod per_value;
mod postgres;
mod query;
mod row_condition;
mod row_hash;
mod spread;
mod table_provider;
mod tables;
mod text_index;
mod unordered_groups;

pub use condition::Condition;
pub use forecast::{Forecast, Reading};
pub use guard::{EndedQuery, QueryEnd, SpillSpace};
pub use options::{Asker, EngineOptions, QueryLimits};
pub use peer_set::PeerSet;
pub use peers::{Peer, PeerAsk, PeerFailure, PeerRows, Peers};
pub use postgres::Described;
pub use query::{QueryEngine, QueryResult, Question};
pub use row_condition::{RowCondition, row_conditions};
pub use row_hash::row_hashes;
pub use spread::{QueryChannel, QueryWorker, query_channel};
