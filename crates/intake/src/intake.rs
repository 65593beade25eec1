//! The one way in: what protocols harvested is parsed, kept, and only then answered.
//!
//! ```text
//!  protocol ─► Harvest ─► parse lines ─► identities ─► Hub::keep ─► verdicts ─► the protocol's own answer
//! ```
//!
//! A harvest is taken by a task of its own: a sender that hangs up must not leave behind rows whose identity was
//! given back although they became durable.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use weir_tables::{Batch, IntakeBatch, IntakeBatchRows, Micros, Rows};

use crate::access::Access;
use crate::counts::{Amount, Counts, Origin, Outcome};
use crate::harvest::{Harvest, Verdict};
use crate::hub::{Hub, NotKept};
use crate::window::{Identity, Window};

/// Lines above this are parsed away from the threads that serve.
const PARSE_ELSEWHERE_BYTES: usize = 128 << 10;
/// How long a sender waits for room before it is told to come again.
const ROOM_PATIENCE: Duration = Duration::from_millis(500);

/// What can be set.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Who may send.
    pub access: Access,
    /// What Fluent's clients have to know; `None` asks them for nothing.
    pub shared_key: Option<Arc<str>>,
    /// Largest body, unpacked, in bytes.
    pub body_bytes: usize,
    /// Bytes of bodies that may be worked on at one time.
    pub in_flight_bytes: usize,
    /// How long identities are remembered.
    pub known: Duration,
    /// The version that Elasticsearch's clients are told.
    pub elasticsearch_version: String,
}

/// All protocols of one hub.
pub struct Intake {
    pub(crate) hub: Arc<dyn Hub>,
    pub(crate) settings: Settings,
    pub(crate) window: Arc<Window>,
    pub(crate) counts: Counts,
    room: Arc<Semaphore>,
}

impl Intake {
    /// An intake that gives what it takes to `hub`.
    pub fn new(hub: Arc<dyn Hub>, settings: Settings) -> Arc<Self> {
        let kibibytes = (settings.in_flight_bytes >> 10).clamp(1, Semaphore::MAX_PERMITS);
        Arc::new(Self {
            window: Arc::new(Window::new(settings.known)),
            counts: Counts::default(),
            room: Arc::new(Semaphore::new(kibibytes)),
            hub,
            settings,
        })
    }

    /// Takes back identities from rows of `intake_batch`, oldest first: the column `ids` with its `ts`.
    pub fn remember<'a>(&self, rows: impl Iterator<Item = (Micros, &'a str)>) {
        for (ts, ids) in rows {
            let chunks = ids.as_bytes().chunks_exact(16).filter_map(|hex| {
                u64::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok().map(Identity)
            });
            self.window.commit(chunks, ts);
        }
    }

    /// Rows of `intake_run` since the last call.
    pub fn report(&self) -> Option<Batch> {
        self.counts.report(self.hub.host(), self.hub.now())
    }

    /// Largest body, unpacked, in bytes.
    pub fn body_bytes(&self) -> usize {
        self.settings.body_bytes
    }

    /// An empty harvest of now.
    pub(crate) fn harvest(&self) -> Box<Harvest> {
        Box::new(Harvest::new(self.hub.now(), &self.window))
    }

    /// Room for `bytes` of a body, given back when dropped; `None` when there is none for a while.
    pub(crate) async fn room(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        tokio::time::timeout(ROOM_PATIENCE, self.room_at_last(bytes)).await.ok()
    }

    /// The same for senders that can be left waiting.
    pub(crate) async fn room_at_last(&self, bytes: usize) -> OwnedSemaphorePermit {
        let most = (self.settings.in_flight_bytes >> 10).max(1);
        let share = u32::try_from((bytes >> 10).clamp(1, most)).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).acquire_many_owned(share).await;
        room.expect("the semaphore is never closed")
    }

    /// Keeps a harvest; what became of each item, once it is durable.
    pub(crate) async fn take(
        self: &Arc<Self>,
        origin: Origin,
        bytes: usize,
        harvest: Box<Harvest>,
    ) -> Result<Vec<Verdict>, NotKept> {
        let intake = Arc::clone(self);
        let task = tokio::spawn(async move { intake.take_here(origin, bytes, harvest).await });
        task.await.unwrap_or_else(|error| {
            Err(NotKept { reason: "failed", message: error.to_string(), hint: None })
        })
    }

    async fn take_here(
        self: &Arc<Self>,
        origin: Origin,
        bytes: usize,
        harvest: Box<Harvest>,
    ) -> Result<Vec<Verdict>, NotKept> {
        let line_bytes: usize = harvest.groups.iter().map(|group| group.bytes.len()).sum();
        let (mut harvest, mut batches) = if line_bytes > PARSE_ELSEWHERE_BYTES {
            let intake = Arc::clone(self);
            let parse = move || intake.parse(harvest);
            tokio::task::spawn_blocking(parse).await.map_err(|error| NotKept {
                reason: "failed",
                message: format!("cannot parse: {error}"),
                hint: None,
            })?
        } else {
            self.parse(harvest)
        };
        batches.extend(self.identities(origin, &harvest));
        if !batches.is_empty() {
            let kept = self.hub.keep(batches).await;
            if let Err(error) = kept {
                let amount = Amount { batches: 1, rows: harvest.verdicts.len(), bytes };
                self.counts.add(origin, Outcome::Refused, Some(error.reason), amount);
                return Err(error);
            }
        }
        harvest.claims.commit(self.hub.now());
        self.count(origin, bytes, &harvest.verdicts);
        Ok(harvest.verdicts)
    }

    /// Lines to rows; the verdicts of lines that were not understood change.
    fn parse(&self, mut harvest: Box<Harvest>) -> (Box<Harvest>, Vec<Batch>) {
        let own = harvest.own_rows().into_iter();
        let mut batches: Vec<Batch> = own.map(|batch| self.hub.clean(batch)).collect();
        for lines in std::mem::take(&mut harvest.groups) {
            let parsed = self.hub.parse(&lines, harvest.now);
            for (offset, reason) in parsed.rejected {
                let line = lines.items.binary_search_by_key(&offset, |(first, _)| *first);
                if let Ok(line) = line {
                    harvest.verdicts[lines.items[line].1] = Verdict::Rejected(reason);
                }
            }
            batches.extend(parsed.batches);
        }
        (harvest, batches)
    }

    fn identities(&self, origin: Origin, harvest: &Harvest) -> Option<Batch> {
        let ids = harvest.claims.ids();
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

    /// Counts the request once for each outcome that its items had; the bytes go to the first, which is `kept` if there is any.
    fn count(&self, origin: Origin, mut bytes: usize, verdicts: &[Verdict]) {
        let mut sums: BTreeMap<(Outcome, Option<&str>), usize> = BTreeMap::new();
        for verdict in verdicts {
            let key = match verdict {
                Verdict::Kept => (Outcome::Kept, None),
                Verdict::Known => (Outcome::Known, None),
                Verdict::Pending => (Outcome::Refused, Some("pending")),
                Verdict::Rejected(why) => (Outcome::Rejected, Some(why.as_str())),
            };
            *sums.entry(key).or_default() += 1;
        }
        for ((outcome, reason), rows) in sums {
            let amount = Amount { batches: 1, rows, bytes: std::mem::take(&mut bytes) };
            self.counts.add(origin, outcome, reason, amount);
        }
    }
}
