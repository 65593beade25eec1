//! Common path of all protocols: batches are parsed and stored, and only then acknowledged.
//!
//! ```text
//!  protocol ─► BatchBuilder ─► parse lines ─► identities ─► Hub::keep ─► verdicts ─► response
//! ```
//!
//! A batch is stored in a separate task: if the sender disconnects, the identities of rows that
//! became durable must not be released.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use weir_tables::{Batch, IntakeBatch, IntakeBatchRows, Micros, Rows};

use crate::access::AccessRules;
use crate::batch_builder::{BatchBuilder, ItemVerdict};
use crate::check_book::{CheckBook, CheckName, CheckRules};
use crate::connections::OpenConnections;
use crate::counts::{BatchAmount, BatchOrigin, IntakeCounts, IntakeOutcome};
use crate::hub::{Hub, KeepError};
use crate::memory::MemoryPool;
use crate::nsca::NscaKey;
use crate::window::{Identity, Window};

/// More bytes of lines are parsed on a blocking thread.
const PARSE_INLINE_BYTES: usize = 128 << 10;

/// Settings of the intake.
#[derive(Clone, Debug)]
pub struct IntakeSettings {
    /// Access control.
    pub access: AccessRules,
    /// Names of this hub, besides addresses and `localhost`: browsers may send to no other.
    pub host_names: Vec<String>,
    /// Shared key of Fluent's clients; `None` requires none.
    pub shared_key: Option<Arc<str>>,
    /// Encryption of NSCA's clients; `None` closes every connection.
    pub nsca: Option<NscaKey>,
    /// Which sender may report results of checks of which host.
    pub checks: CheckRules,
    /// Largest decompressed body, in bytes.
    pub body_bytes: usize,
    /// Bytes of bodies and frames, decompressed, that may be in flight at one time.
    pub in_flight_bytes: usize,
    /// How long identities are remembered.
    pub known: Duration,
    /// The version reported to Elasticsearch's clients.
    pub elasticsearch_version: String,
}

/// All protocols of one hub.
pub struct Intake {
    pub(crate) hub: Arc<dyn Hub>,
    pub(crate) settings: IntakeSettings,
    pub(crate) window: Arc<Window>,
    pub(crate) checks: Arc<CheckBook>,
    pub(crate) counts: IntakeCounts,
    pub(crate) memory: Arc<MemoryPool>,
    pub(crate) connections: OpenConnections,
}

impl Intake {
    /// An intake that stores batches in `hub`.
    pub fn new(hub: Arc<dyn Hub>, settings: IntakeSettings) -> Arc<Self> {
        Arc::new(Self {
            window: Arc::new(Window::new(settings.known)),
            checks: Arc::new(CheckBook::new(settings.checks.clone())),
            counts: IntakeCounts::default(),
            memory: MemoryPool::new(settings.in_flight_bytes),
            connections: OpenConnections::default(),
            hub,
            settings,
        })
    }

    /// Restores identities from rows of `intake_batch`, oldest first: the columns `ts` and `ids`.
    pub fn remember<'a>(&self, rows: impl Iterator<Item = (Micros, &'a str)>) {
        for (ts, ids) in rows {
            let chunks = ids.as_bytes().chunks_exact(16).filter_map(|hex| {
                u64::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok().map(Identity)
            });
            self.window.commit(chunks, ts);
        }
    }

    /// Restores rhythms of checks from rows of passive results, oldest first.
    pub fn remember_checks<'a>(&self, rows: impl Iterator<Item = (Micros, CheckName<'a>)>) {
        for (ts, name) in rows {
            let _ = self.checks.observe(name, ts);
        }
    }

    /// Rows of `intake_run` since the last call.
    pub fn report(&self) -> Option<Batch> {
        self.counts.report(self.hub.host(), self.hub.now())
    }

    /// Whether senders over HTTP need a token, so that their address does not matter.
    pub fn requires_token(&self) -> bool {
        self.settings.access.token.is_some()
    }

    /// An empty builder as of now.
    pub(crate) fn builder(&self) -> Box<BatchBuilder> {
        let mut builder = BatchBuilder::new(self.hub.now(), &self.window);
        builder.checks = Arc::clone(&self.checks);
        Box::new(builder)
    }

    /// Stores a batch and returns the verdict of each item, once it is durable.
    pub(crate) async fn take(
        self: &Arc<Self>,
        origin: BatchOrigin,
        bytes: usize,
        builder: Box<BatchBuilder>,
    ) -> Result<Vec<ItemVerdict>, KeepError> {
        let intake = Arc::clone(self);
        let task = tokio::spawn(async move { intake.parse_and_keep(origin, bytes, builder).await });
        task.await.unwrap_or_else(|error| {
            Err(KeepError { reason: "failed", message: error.to_string(), hint: None })
        })
    }

    async fn parse_and_keep(
        self: &Arc<Self>,
        origin: BatchOrigin,
        bytes: usize,
        builder: Box<BatchBuilder>,
    ) -> Result<Vec<ItemVerdict>, KeepError> {
        let line_bytes: usize = builder.groups.iter().map(|group| group.bytes.len()).sum();
        let (mut builder, mut batches) = if line_bytes > PARSE_INLINE_BYTES {
            let intake = Arc::clone(self);
            let task = tokio::task::spawn_blocking(move || intake.parse(builder));
            task.await.map_err(|error| KeepError {
                reason: "failed",
                message: format!("cannot parse: {error}"),
                hint: None,
            })?
        } else {
            self.parse(builder)
        };
        batches.extend(self.identities(origin, &builder));
        if !batches.is_empty() {
            let kept = self.hub.keep(batches).await;
            if let Err(error) = kept {
                let amount = BatchAmount { batches: 1, rows: builder.verdicts.len(), bytes };
                self.counts.add(origin, IntakeOutcome::Refused, Some(error.reason), amount);
                return Err(error);
            }
        }
        builder.claims.commit(self.hub.now());
        self.count(origin, bytes, &builder.verdicts);
        self.count_lost(origin, &builder);
        Ok(builder.verdicts)
    }

    /// Parses the lines and marks the verdicts of rejected ones.
    fn parse(&self, mut builder: Box<BatchBuilder>) -> (Box<BatchBuilder>, Vec<Batch>) {
        let own = builder.own_rows().into_iter();
        let mut batches: Vec<Batch> = own.map(|batch| self.hub.clean(batch)).collect();
        for lines in std::mem::take(&mut builder.groups) {
            let parsed = self.hub.parse(&lines, builder.now);
            for (offset, reason) in parsed.rejected {
                let line = lines.items.binary_search_by_key(&offset, |(first, _)| *first);
                if let Ok(line) = line {
                    builder.verdicts[lines.items[line].1] = ItemVerdict::Rejected(reason);
                }
            }
            batches.extend(parsed.batches);
        }
        (builder, batches)
    }

    fn identities(&self, origin: BatchOrigin, builder: &BatchBuilder) -> Option<Batch> {
        let ids = builder.claims.ids();
        if ids.is_empty() {
            return None;
        }
        let text: String = ids.iter().map(|id| format!("{:016x}", id.0)).collect();
        let mut rows = IntakeBatchRows::default();
        rows.push(&IntakeBatch {
            ts: self.hub.now(),
            host: self.hub.host(),
            protocol: origin.protocol,
            peer: &origin.peer.map(|peer| peer.to_string()).unwrap_or_default(),
            rows: i64::try_from(ids.len()).unwrap_or(i64::MAX),
            ids: &text,
        });
        Some(Batch { table: IntakeBatchRows::SPEC, rows: rows.finish() })
    }

    /// Counts what a protocol discarded.
    pub(crate) fn count_lost(&self, origin: BatchOrigin, builder: &BatchBuilder) {
        for (reason, (rows, bytes)) in &builder.lost {
            let amount = BatchAmount { batches: 0, rows: *rows, bytes: *bytes };
            self.counts.add(origin, IntakeOutcome::Lost, Some(reason), amount);
        }
    }

    /// Counts the request once for each outcome of its items. The bytes go to the first outcome,
    /// which is `kept` if there is any.
    fn count(&self, origin: BatchOrigin, mut bytes: usize, verdicts: &[ItemVerdict]) {
        let mut sums: BTreeMap<(IntakeOutcome, Option<&str>), usize> = BTreeMap::new();
        for verdict in verdicts {
            let key = match verdict {
                ItemVerdict::Kept => (IntakeOutcome::Kept, None),
                ItemVerdict::Known => (IntakeOutcome::Known, None),
                ItemVerdict::Pending => (IntakeOutcome::Refused, Some("pending")),
                ItemVerdict::Rejected(why) => (IntakeOutcome::Rejected, Some(why.as_str())),
            };
            *sums.entry(key).or_default() += 1;
        }
        for ((outcome, reason), rows) in sums {
            let amount = BatchAmount { batches: 1, rows, bytes: std::mem::take(&mut bytes) };
            self.counts.add(origin, outcome, reason, amount);
        }
    }
}
