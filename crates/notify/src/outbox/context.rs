//! What an outbox is made of.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use weir_ledger::LedgerBackend;
use weir_tables::Clock;

use super::status::NoticeSink;
use crate::receiver::Receiver;
use crate::templates::TemplateSet;

/// Everything that an outbox needs.
pub struct OutboxContext {
    /// Where the notices are kept.
    pub ledger: Arc<Mutex<dyn LedgerBackend>>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The receivers by their names in the configuration.
    pub receivers: BTreeMap<String, Arc<dyn Receiver>>,
    /// Takes each change of a notice.
    pub sink: Arc<dyn NoticeSink>,
    /// Name of this instance, different after each start: `hub1-4711-1732700000`.
    pub owner: String,
    /// Address of the page, for links; empty when not known.
    pub page_url: String,
    /// Templates that replace forms of messages.
    pub templates: Option<Arc<TemplateSet>>,
    /// Seed of the jitter; from the system when `None`.
    pub seed: Option<u64>,
}
