//! The tail thread: follows files, hands chunks to the parser, and goes back where the destination
//! stands.
//!
//! ```text
//!   scan ─► new streams ─► positions ─► start
//!   read ─► chunk ─► (bounded) ─► parser ─► destination ─► durable: acknowledge
//!                                                       └► again:   rewind, next epoch
//! ```

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError};
use std::time::{Duration, Instant};

use weir_collect::logs::{
    Chunk, Gap, GapReason, Journal, JournalOptions, NewStream, ObjectLog, RecordLogs, StatusKey,
    TailEvent, TailOptions, Tailer,
};
use weir_config::Values;
use weir_process::meter::{Stage, StageRun};
use weir_tables::{
    Batch, Log, LogFormat, LogGap, LogGapRows, LogRows, LogSource, Micros, Rows, StreamId,
};

use super::bucket;
use super::deliver::{DeliveryReply, DeliveryTicket};
use super::lag::ShipLog;
use super::{AgentLimits, WatchContext};
use crate::memory_cap::MemoryCap;

/// How often files are polled: the largest part of the delay from a line's writing to its reading.
const LOOK: Duration = Duration::from_millis(200);
/// The interval after [`IDLE_AFTER`] without a write: polling is most of what an idle tailer costs.
const LOOK_IDLE: Duration = Duration::from_millis(250);
const IDLE_AFTER: Duration = Duration::from_secs(10);
/// The pause after the destination was busy or full, or did not answer.
const PAUSE: Duration = Duration::from_secs(1);
/// Streams that one question to the destination is about.
const ASKED_AT_ONCE: usize = 4096;
/// How often the status is published.
const PUBLISH: Duration = Duration::from_secs(1);

/// A chunk in flight to the parser.
pub(super) struct ParseJob {
    pub(super) chunk: Chunk,
    pub(super) ticket: DeliveryTicket,
}

pub(super) struct Follower {
    context: WatchContext,
    tailer: Tailer,
    journals: Vec<LogProgress>,
    /// Where the host's root is mounted, for journals.
    root: PathBuf,
    journals_gone: Vec<StatusKey>,
    buckets: Vec<bucket::BucketLog>,
    jobs: SyncSender<ParseJob>,
    reply: Sender<DeliveryReply>,
    replies: Receiver<DeliveryReply>,
    unanswered: Vec<NewStream>,
    epochs: Epochs,
    paused_until: Option<Instant>,
    published: Option<Instant>,
    last_chunk: Option<Instant>,
    ship: ShipLog,
    memory: MemoryCap,
}

/// How often each stream was rewound.
#[derive(Default)]
struct Epochs {
    of: HashMap<StreamId, u64>,
    /// Where streams begin: what a courier has voided of a stream that is forgotten and comes back
    /// must stay below.
    first: u64,
}

impl Epochs {
    fn of(&mut self, stream: StreamId) -> &mut u64 {
        self.of.entry(stream).or_insert(self.first)
    }

    fn forget(&mut self, stream: StreamId) {
        if let Some(epoch) = self.of.remove(&stream) {
            self.first = self.first.max(epoch);
        }
    }
}

/// A journal that is followed, and the source it was made from.
struct LogProgress {
    source: LogSource,
    journal: Journal,
    is_started: bool,
}

impl LogProgress {
    fn new(host: &str, root: &Path, source: LogSource) -> Self {
        let root = (root != Path::new("/")).then(|| root.to_owned());
        let options = JournalOptions { host: host.to_owned(), root, ..JournalOptions::default() };
        Self { journal: Journal::new(options, &source), source, is_started: false }
    }
}

impl Follower {
    pub(super) fn new(
        context: WatchContext,
        jobs: SyncSender<ParseJob>,
        values: &Values,
        limits: Option<AgentLimits>,
        buckets: Vec<bucket::BucketLog>,
    ) -> Self {
        let days = values.collect.backfill_days;
        let usual = TailOptions::default();
        let (memory, chunk_bytes, rests) = limits
            .map_or((MemoryCap::new(0), usual.chunk_bytes, None), |limits| {
                (limits.memory, limits.chunk_bytes, limits.rests)
            });
        let options = TailOptions {
            chunk_bytes,
            rests,
            host: context.host.clone(),
            max_in_flight_bytes: values.collect.in_flight_bytes,
            backfill: (days > 0).then(|| Duration::from_secs(days.min(36_500) * 86_400)),
            ..usual
        };
        let mut tailer = Tailer::new(options);
        let rules = values
            .logs
            .iter()
            .filter_map(|log| Some((super::named_by_user(&log.path).path, log.multiline.clone()?)));
        tailer.set_multiline(rules.collect());
        let (reply, replies) = std::sync::mpsc::channel();
        Self {
            context,
            tailer,
            journals: Vec::new(),
            root: values.collect.root.clone(),
            journals_gone: Vec::new(),
            buckets,
            jobs,
            reply,
            replies,
            unanswered: Vec::new(),
            epochs: Epochs::default(),
            paused_until: None,
            published: None,
            last_chunk: None,
            ship: ShipLog::default(),
            memory,
        }
    }

    /// Sets which logs have records of several lines.
    pub(super) fn set_record_logs(&mut self, has_records: RecordLogs) {
        self.tailer.set_record_logs(has_records);
    }

    /// Until the stop.
    pub(super) fn run(mut self) {
        while !self.context.stop.is_set() {
            self.take_sources();
            let now = self.context.clock.now();
            self.unanswered.extend(self.tailer.scan(now));
            self.note_events(now);
            self.buckets.iter_mut().for_each(bucket::BucketLog::look);
            if !self.is_paused() {
                self.ask();
                self.read();
            }
            self.publish();
            self.wait();
        }
    }

    fn take_sources(&mut self) {
        if let Some(sources) = self.context.status.take_new_sources() {
            let (journals, files): (Vec<LogSource>, _) =
                sources.into_iter().partition(|source| source.format == LogFormat::Journal);
            self.tailer.set_sources(files);
            for ended in self.journals.extract_if(.., |known| !journals.contains(&known.source)) {
                let status = ended.journal.status();
                self.journals_gone.push((status.path, status.stream));
            }
            for source in journals {
                if !self.journals.iter().any(|followed| followed.source == source) {
                    self.journals.push(LogProgress::new(&self.context.host, &self.root, source));
                }
            }
        }
    }

    fn is_paused(&mut self) -> bool {
        self.paused_until = self.paused_until.filter(|until| *until > Instant::now());
        self.paused_until.is_some()
    }

    fn pause(&mut self) {
        self.paused_until = Some(Instant::now() + PAUSE);
    }

    /// Asks where new streams stand, and starts them there.
    fn ask(&mut self) {
        let journals = self.journals.iter().filter(|followed| !followed.is_started);
        let files = self.unanswered.iter().map(|new| new.stream);
        let objects = self.buckets.iter().flat_map(|followed| followed.log.unknown());
        let asked: Vec<StreamId> = journals
            .map(|followed| followed.journal.stream())
            .chain(objects)
            .chain(files)
            .collect();
        if asked.is_empty() {
            return;
        }
        let mut known: HashMap<StreamId, u64> = HashMap::new();
        for part in asked.chunks(ASKED_AT_ONCE) {
            match self.context.destination.positions(part) {
                Ok(positions) => known.extend(positions),
                Err(error) => {
                    self.context.meter.failed(Stage::Tail, &error);
                    return self.pause();
                }
            }
        }
        for new in self.unanswered.drain(..) {
            let position = known.get(&new.stream).copied();
            self.context.status.note_source(&new);
            self.tailer.start(new.stream, position);
        }
        // Answers take effect at the next look; without this a new file would wait for it.
        let now = self.context.clock.now();
        for followed in self.journals.iter_mut().filter(|followed| !followed.is_started) {
            let position = known.get(&followed.journal.stream()).copied();
            followed.journal.start(position, now);
            followed.is_started = true;
        }
        for followed in &mut self.buckets {
            followed.log.start(&known);
            followed.look();
        }
        // What was just found is shown at once.
        self.published = None;
        self.unanswered.extend(self.tailer.scan(now));
    }

    fn read(&mut self) {
        loop {
            // With nothing in flight, waiting would free no memory.
            if self.tailer.in_flight_bytes() > 0 && self.memory.is_reached() {
                return;
            }
            let run = StageRun::start();
            let now = self.context.clock.now();
            let Some(chunk) = self.next_chunk(now) else { return };
            self.context.meter.ran(Stage::Tail, &run, 0);
            self.last_chunk = Some(Instant::now());
            let ticket = DeliveryTicket {
                stream: chunk.stream,
                epoch: *self.epochs.of(chunk.stream),
                from: chunk.from,
                to: chunk.to,
                is_first: chunk.is_first,
                reply: self.reply.clone(),
            };
            if !self.hand_over(ParseJob { chunk, ticket }) {
                return;
            }
            while let Ok(reply) = self.replies.try_recv() {
                self.take(reply);
            }
            self.publish();
            if self.is_paused() {
                return;
            }
        }
    }

    /// Waits until the parser takes the job, and polls files meanwhile: a file that is created and
    /// renamed away while the pipeline is blocked would be missed. `false` when it is time to end.
    fn hand_over(&mut self, mut job: ParseJob) -> bool {
        let mut looked = Instant::now();
        loop {
            match self.jobs.try_send(job) {
                Ok(()) => return !self.context.stop.is_set(),
                Err(TrySendError::Full(back)) => job = back,
                Err(TrySendError::Disconnected(_)) => return false,
            }
            if self.context.stop.is_set() {
                return false;
            }
            if looked.elapsed() > LOOK {
                self.unanswered.extend(self.tailer.scan(self.context.clock.now()));
                // How far behind it is must be told above all while it is.
                self.publish();
                looked = Instant::now();
            }
            // A parser that is done with a chunk gives its buffer back, so this ends when there is
            // room.
            if let Ok(reply) = self.replies.recv_timeout(LOOK) {
                self.take(reply);
            }
        }
    }

    /// Journals first: they give little at a time.
    fn next_chunk(&mut self, now: Micros) -> Option<Chunk> {
        let of_journals = self.journals.iter_mut().find_map(|followed| followed.journal.read(now));
        of_journals
            .or_else(|| self.buckets.iter_mut().find_map(|followed| followed.log.read()))
            .or_else(|| self.tailer.read(now))
    }

    fn object_mut(&mut self, stream: StreamId) -> Option<&mut ObjectLog> {
        let mut logs = self.buckets.iter_mut().map(|followed| &mut followed.log);
        logs.find(|log| log.is_reading(stream))
    }

    fn journal_mut(&mut self, stream: StreamId) -> Option<&mut Journal> {
        let mut journals = self.journals.iter_mut().map(|followed| &mut followed.journal);
        journals.find(|journal| journal.stream() == stream)
    }

    /// Takes replies until the next poll. Lines that arrive meanwhile wait for it, so that parcels
    /// are few and large: each costs a record, a sync and a schema, whatever its size. Only a full
    /// read buffer continues at once.
    fn wait(&mut self) {
        let is_idle = self.last_chunk.is_none_or(|at| at.elapsed() > IDLE_AFTER);
        let next_look = Instant::now() + if is_idle { LOOK_IDLE } else { LOOK };
        let is_full = self.tailer.is_full();
        loop {
            let left = next_look.saturating_duration_since(Instant::now());
            let Ok(reply) = self.replies.recv_timeout(left) else { return };
            self.take(reply);
            while let Ok(reply) = self.replies.try_recv() {
                self.take(reply);
            }
            if is_full {
                return;
            }
        }
    }

    fn take(&mut self, reply: DeliveryReply) {
        match reply {
            DeliveryReply::Durable { stream, to } => {
                if let Some(journal) = self.journal_mut(stream) {
                    journal.acknowledge(to);
                } else if let Some(log) = self.object_mut(stream) {
                    log.acknowledge(to);
                } else {
                    self.tailer.acknowledge(stream, to);
                }
            }
            DeliveryReply::Again { stream, epoch, to, is_busy } => {
                let current = self.epochs.of(stream);
                if *current == epoch {
                    *current += 1;
                    if let Some(journal) = self.journal_mut(stream) {
                        journal.rewind(to);
                    } else if let Some(log) = self.object_mut(stream) {
                        log.rewind(to);
                    } else {
                        self.tailer.rewind(stream, to);
                    }
                }
                if is_busy {
                    self.pause();
                }
            }
            DeliveryReply::Spare(bytes) => self.tailer.recycle(bytes),
        }
    }

    fn publish(&mut self) {
        if self.published.is_some_and(|at| at.elapsed() < PUBLISH) {
            return;
        }
        self.published = Some(Instant::now());
        let mut changes = self.tailer.status_changes();
        changes.changed.extend(self.journals.iter().map(|followed| followed.journal.status()));
        changes.changed.extend(self.buckets.iter().map(|followed| followed.log.status()));
        changes.gone.append(&mut self.journals_gone);
        for stream in changes.gone.iter().filter_map(|(_, stream)| *stream) {
            self.epochs.forget(stream);
        }
        self.ship.note_ages(self.context.status.take_ages());
        if let Some(rows) = self.ship.look(&self.context.host, &changes, self.context.clock.now()) {
            self.context.destination.send_sample(vec![rows]);
        }
        self.context.status.change_streams(changes);
    }

    /// Turns events of files into rows: lost bytes must show when lines are counted.
    fn note_events(&mut self, now: Micros) {
        let events = self.tailer.take_events();
        if events.is_empty() {
            return;
        }
        let mut rows = LogRows::default();
        let mut gaps = LogGapRows::default();
        for event in &events {
            self.ship.note(event);
            let (severity, body) = described(event);
            tracing::debug!("{body}");
            rows.push(&Log {
                ts: now,
                host: &self.context.host,
                observed_ts: now,
                source: "weir:tail",
                program: Some("weir"),
                severity: Some(severity),
                body: &body,
                ..Default::default()
            });
            if let TailEvent::Gap(gap) = event {
                push_gap(&mut gaps, gap, &self.context.host, now);
            }
        }
        let mut batches = vec![Batch { table: LogRows::SPEC, rows: rows.finish() }];
        if !gaps.is_empty() {
            batches.push(Batch { table: LogGapRows::SPEC, rows: gaps.finish() });
        }
        self.context.destination.send_sample(batches);
    }
}

pub(super) fn push_gap(rows: &mut LogGapRows, gap: &Gap, host: &str, now: Micros) {
    rows.push(&LogGap {
        ts: now,
        host,
        source: &gap.path,
        stream: Some(gap.stream.short()),
        source_offset: offset(gap.from),
        end_offset: gap.to.map(offset),
        lost_bytes: offset(gap.lost_bytes),
        is_exact: gap.is_exact,
        unwatched_seconds: gap.unwatched.map(|span| span.as_secs_f64()),
        reason: gap.reason.as_str(),
        detail: &described_gap(gap).1,
    });
}

fn offset(offset: u64) -> i64 {
    i64::try_from(offset).unwrap_or(i64::MAX)
}

fn described(event: &TailEvent) -> (&'static str, String) {
    match event {
        TailEvent::Rotated { path, unread_bytes, .. } => (
            "info",
            format!("`{path}` was rotated; {unread_bytes} bytes of the old file are still read"),
        ),
        TailEvent::Truncated { path, is_copy_found: false, .. } => {
            ("info", format!("`{path}` was cut and is read from its start"))
        }
        TailEvent::Truncated { path, .. } => (
            "info",
            format!(
                "`{path}` was cut and is read from its start; what was not read yet is read from its copy"
            ),
        ),
        TailEvent::WriterOnDeleted { path, size } => {
            ("warn", format!("a program still writes to `{path}`, which is deleted ({size} bytes)"))
        }
        TailEvent::Kept { path, bytes, stored_bytes, lost_bytes: 0, .. } => (
            "info",
            format!(
                "`{path}` is deleted and closed; {bytes} bytes that no hub has are kept in {stored_bytes} bytes"
            ),
        ),
        TailEvent::Kept { path, bytes, lost_bytes, .. } => (
            "warn",
            format!(
                "`{path}` is deleted and closed; of {bytes} bytes that no hub has, {lost_bytes} had no room and are lost"
            ),
        ),
        TailEvent::NotKept { path, why } => {
            ("warn", format!("`{path}` is deleted and held open; its rest cannot be copied: {why}"))
        }
        TailEvent::BadRest { path, why } => {
            ("warn", format!("cannot read the rest of a deleted log, `{}`: {why}", path.display()))
        }
        TailEvent::Gap(gap) => described_gap(gap),
    }
}

fn described_gap(gap: &Gap) -> (&'static str, String) {
    let Gap { path, from, lost_bytes, .. } = gap;
    let severity = if *lost_bytes > 0 { "warn" } else { "info" };
    let unwatched = gap.unwatched.unwrap_or_default().as_secs_f64();
    let text = match gap.reason {
        GapReason::Truncated if *lost_bytes == 0 => format!(
            "`{path}` was cut; what was written to it in the last {unwatched:.3} s before may be lost"
        ),
        GapReason::Truncated => {
            format!(
                "`{path}` was cut; at least {lost_bytes} bytes from offset {from} were never read"
            )
        }
        GapReason::Gone => {
            format!("`{path}` is gone; {lost_bytes} bytes from offset {from} were never read")
        }
        GapReason::TooLong => format!(
            "a line of `{path}` is over the limit; its last {lost_bytes} bytes from offset {from} are not kept"
        ),
        GapReason::NulBytes => {
            format!("`{path}` has a hole at offset {from}, which is passed over")
        }
        GapReason::StreamGone => {
            format!("stream {} is wanted from offset {from}, but its file is gone", gap.stream)
        }
    };
    (severity, text)
}
