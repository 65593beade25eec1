//! One output: gathers, sends, moves the position; waits longer after each failure; gives up what is too much.
//!
//! ```text
//!  read ─► gather until a limit ─► plan(to) ─► send ─► done(to)
//!                                     ▲          │ failed: wait 0.5 s … 30 s, send what is still pending
//!                                     │          ▼ too much waits: count the oldest rows as lost, done(behind them)
//!            after a restart: the same rows up to the planned position, then on
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::sync::watch;
use weir_tables::{Clock, CopiedRows, LogPosition, TableSpec};

use crate::batch::{Batch, Filling, Form};
use crate::json::Encoder;
use crate::status::Status;
use crate::target::{Pending, Target};

/// The store's log as an output reads it.
pub trait Source: Send {
    /// The next rows; `None` when nothing came within `patience`.
    ///
    /// # Errors
    /// Why the log cannot be read now.
    fn read(&mut self, patience: Duration) -> Result<Option<CopiedRows>, String>;
    /// With a place, the name of a row.
    fn epoch(&self) -> u64;
    /// The record behind the log's last.
    fn end(&self) -> u64;
    /// Everything before is copied.
    fn position(&self) -> LogPosition;
    /// The end of a batch that was begun before a restart and not finished.
    fn planned(&self) -> Option<LogPosition>;
    /// A batch up to `to` is about to be sent.
    ///
    /// # Errors
    /// Why that could not be kept.
    fn plan(&mut self, to: LogPosition) -> Result<(), String>;
    /// Everything before `to` is copied.
    ///
    /// # Errors
    /// Why that could not be kept.
    fn done(&mut self, to: LogPosition) -> Result<(), String>;
    /// Bytes of the log behind what was read.
    fn lag_bytes(&self) -> u64;
    /// Whether more than `percent` of what may wait does.
    fn is_over(&self, percent: u64) -> bool;
}

/// When a batch is sent.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// At so many rows.
    pub rows: usize,
    /// At so many bytes.
    pub bytes: usize,
    /// So long after its first row.
    pub wait: Duration,
}

/// What is copied, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The output's name.
    pub name: String,
    /// The table.
    pub table: &'static TableSpec,
    /// Numbers of the columns that are copied.
    pub columns: Vec<usize>,
    /// When a batch is sent.
    pub limits: Limits,
}

/// One output with everything that it needs.
pub struct Output {
    /// What is copied.
    pub settings: Settings,
    /// From where.
    pub source: Box<dyn Source>,
    /// To where.
    pub target: Target,
    /// What it tells.
    pub status: Arc<Status>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Becomes true when it is time to end.
    pub ended: watch::Receiver<bool>,
}

/// The log is asked at least this often, so that the end is noticed.
const LOOK: Duration = Duration::from_millis(500);
/// A position without rows to send is kept this often.
const IDLE_SAVE: Duration = Duration::from_secs(2);
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// When too much waits, this part of what may wait is left.
const LEFT_PERCENT: u64 = 75;

/// What became of a batch.
enum Delivery {
    Done,
    GivenUp,
    Ended,
}

impl Output {
    /// Runs until it is told to end. Blocks: it wants a thread of its own.
    pub fn run(self) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        match runtime {
            Ok(runtime) => Work::new(self, runtime).run(),
            Err(error) => self.status.failed(&format!("cannot start the output: {error}")),
        }
    }
}

/// The output at work.
struct Work {
    output: Output,
    runtime: Runtime,
    /// For JSON.
    encoder: Option<Encoder>,
    batch: Batch,
    /// When the first row of the batch came.
    since: Option<Instant>,
    /// What did not fit into the batch before.
    rest: Option<CopiedRows>,
    /// The end that the batch must have, when it was begun before a restart.
    until: Option<LogPosition>,
    saved: Instant,
}

impl Work {
    fn new(output: Output, runtime: Runtime) -> Self {
        let settings = &output.settings;
        let encoder = match output.target.form() {
            Form::Json { has_timestamp } => {
                Some(Encoder::new(settings.table, &settings.columns, has_timestamp))
            }
            Form::Columns => None,
        };
        let until = output.source.planned();
        let mut work = Self {
            output,
            runtime,
            encoder,
            batch: Batch::default(),
            since: None,
            rest: None,
            until,
            saved: Instant::now(),
        };
        work.begin();
        work
    }

    fn begin(&mut self) {
        let source = &self.output.source;
        self.batch = Batch::new(source.epoch(), source.position());
        self.since = None;
    }

    fn run(mut self) {
        while !self.is_ended() {
            self.mark();
            let outcome =
                if self.output.source.is_over(100) { self.give_up(None) } else { self.step() };
            if let Err(why) = outcome {
                tracing::warn!("output `{}`: {why}", self.output.settings.name);
                self.output.status.failed(&why);
                self.pause(PAUSE_MIN, false);
            }
        }
    }

    fn is_ended(&self) -> bool {
        *self.output.ended.borrow()
    }

    fn mark(&self) {
        let Output { source, status, clock, .. } = &self.output;
        status.mark(clock.now(), source.end(), source.position().sequence, source.lag_bytes());
    }

    /// Reads once, and sends when the batch is full or old enough.
    fn step(&mut self) -> Result<(), String> {
        let piece = match self.rest.take() {
            Some(rest) => Some(rest),
            None => self.output.source.read(self.patience())?,
        };
        let mut is_full = false;
        if let Some(piece) = piece {
            self.count_lost_records(&piece);
            let limits = &self.output.settings.limits;
            let filling = Filling { limits, until: self.until, encoder: self.encoder.as_ref() };
            (self.rest, is_full) = self.batch.fill(piece, &filling);
            if self.since.is_none() && !self.batch.is_empty() {
                self.since = Some(Instant::now());
            }
        }
        let wait = self.output.settings.limits.wait;
        let is_due =
            self.until.is_none() && self.since.is_some_and(|since| since.elapsed() >= wait);
        if is_full || is_due {
            self.send()
        } else if self.batch.is_empty() && self.saved.elapsed() > IDLE_SAVE {
            self.save()
        } else {
            Ok(())
        }
    }

    fn patience(&self) -> Duration {
        let wait = self.output.settings.limits.wait;
        self.since.map_or(LOOK, |since| wait.saturating_sub(since.elapsed()).min(LOOK))
    }

    fn count_lost_records(&self, piece: &CopiedRows) {
        if piece.lost_records > 0 {
            let lost = piece.lost_records;
            let why = format!("{lost} records of the log are gone before they were copied");
            self.output.status.failed(&why);
        }
    }

    /// Keeps the position of a batch without rows.
    fn save(&mut self) -> Result<(), String> {
        self.saved = Instant::now();
        if self.batch.to > self.output.source.position() {
            self.output.source.done(self.batch.to)?;
        }
        Ok(())
    }

    /// Sends the batch until all of its rows are settled, given up or kept for the next start.
    fn send(&mut self) -> Result<(), String> {
        let to = self.batch.to;
        if !self.batch.is_empty() {
            if self.until.is_none() {
                self.output.source.plan(to)?;
                self.until = Some(to);
            }
            let mut pending = Pending::new(&self.batch);
            let delivery = self.deliver(&mut pending);
            self.settle(&pending);
            match delivery {
                Delivery::Ended => return Ok(()),
                Delivery::GivenUp => return self.give_up(Some(pending.docs.len())),
                Delivery::Done => {}
            }
        }
        self.until = None;
        // What was sent is not sent again only because its position cannot be kept at once.
        while let Err(why) = self.output.source.done(to) {
            self.output.status.failed(&why);
            self.pause(PAUSE_MIN, false);
            if self.is_ended() {
                return Ok(());
            }
        }
        self.begin();
        Ok(())
    }

    fn settle(&self, pending: &Pending) {
        let status = &self.output.status;
        status.refused(&pending.refused);
        let bytes = self.batch.byte_count() as u64;
        status.change(|figures| {
            figures.rows += pending.copied + pending.repeats;
            figures.repeats += pending.repeats;
            if pending.docs.is_empty() {
                figures.batches += 1;
                figures.bytes += bytes;
            }
        });
    }

    fn deliver(&mut self, pending: &mut Pending) -> Delivery {
        let mut pause = PAUSE_MIN;
        loop {
            match self.attempt(pending) {
                Some(Ok(())) => {
                    self.output.status.change(|figures| figures.error = None);
                    return Delivery::Done;
                }
                Some(Err(why)) => {
                    let name = &self.output.settings.name;
                    tracing::warn!(
                        "output `{name}`: {why}; trying again in {:.1} s",
                        pause.as_secs_f64()
                    );
                    self.output.status.failed(&why);
                    self.pause(pause, true);
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                None => {}
            }
            if self.is_ended() {
                return Delivery::Ended;
            }
            if self.output.source.is_over(100) {
                return Delivery::GivenUp;
            }
        }
    }

    /// One attempt; `None` when it was broken off because too much waits or it is time to end.
    fn attempt(&mut self, pending: &mut Pending) -> Option<Result<(), String>> {
        let Output { target, source, status, clock, ended, .. } = &mut self.output;
        self.runtime.block_on(async {
            let mut sending = std::pin::pin!(target.send(&self.batch, pending));
            loop {
                tokio::select! {
                    outcome = &mut sending => return Some(outcome),
                    _ = ended.wait_for(|is_ended| *is_ended) => return None,
                    () = tokio::time::sleep(LOOK) => {
                        status.mark(clock.now(), source.end(), source.position().sequence, source.lag_bytes());
                        if source.is_over(100) {
                            return None;
                        }
                    }
                }
            }
        })
    }

    /// Waits, but not over the end, nor, if asked to heed it, when too much waits meanwhile.
    fn pause(&mut self, span: Duration, heeds_excess: bool) {
        let end = Instant::now() + span;
        let is_over = |work: &Self| heeds_excess && work.output.source.is_over(100);
        while Instant::now() < end && !self.is_ended() && !is_over(self) {
            let left = end.saturating_duration_since(Instant::now()).min(LOOK);
            let mut ended = self.output.ended.clone();
            let wait = async move {
                let _ = tokio::time::timeout(left, ended.wait_for(|is_ended| *is_ended)).await;
            };
            self.runtime.block_on(wait);
            self.mark();
        }
    }

    /// Gives up the oldest rows: what is `pending` of the batch, or the whole batch when it was not sent yet, and what
    /// follows in the log until little enough is left.
    fn give_up(&mut self, pending: Option<usize>) -> Result<(), String> {
        let mut lost = pending.unwrap_or(self.batch.docs.len()) as u64;
        let mut to = self.batch.to;
        if let Some(rest) = self.rest.take() {
            lost += rest.places.len() as u64;
            to = rest.next;
        }
        self.until = None;
        self.begin();
        let mut problem = None;
        while self.output.source.is_over(LEFT_PERCENT) && !self.is_ended() {
            match self.output.source.read(Duration::ZERO) {
                Ok(Some(piece)) => {
                    lost += piece.places.len() as u64;
                    to = piece.next;
                }
                Ok(None) => break,
                Err(why) => {
                    problem = Some(why);
                    break;
                }
            }
        }
        self.batch.to = to;
        if lost > 0 {
            let name = &self.output.settings.name;
            tracing::error!("output `{name}`: gave up {lost} rows, because too much waited");
            self.output.status.change(|figures| figures.rows_lost += lost);
        }
        self.output.source.done(to)?;
        problem.map_or(Ok(()), Err)
    }
}
