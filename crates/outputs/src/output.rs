//! One output: collects a batch, sends it, advances the position; backs off after failures and
//! gives up rows beyond the backlog limit.
//!
//! ```text
//!  read ─► collect until a limit ─► plan(to) ─► send ─► done(to)
//!                                      ▲          │ failed: wait 0.5 s … 30 s, send pending rows
//!                                      │          ▼ backlog too large: count the oldest rows as
//!                                      │            lost, done(after them)
//!            after a restart: the same rows up to the planned position, then the next
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::sync::watch;
use weir_tables::{Clock, CopiedRows, LogPosition, TableSpec};

use crate::batch::{Batch, BatchForm, BatchLimits, FillPlan};
use crate::error::Error;
use crate::json::RowEncoder;
use crate::status::{LogProgress, OutputStatus};
use crate::target::{OutputTarget, PendingRows};

/// Reads the store's log for an output.
pub trait LogReader: Send {
    /// The next rows; `None` when there are none within `patience`.
    ///
    /// # Errors
    /// When the log cannot be read now.
    fn read(&mut self, patience: Duration) -> Result<Option<CopiedRows>, Error>;
    /// Epoch of the output: with a position, the id of a row.
    fn epoch(&self) -> u64;
    /// The record after the log's last.
    fn end(&self) -> u64;
    /// Everything before this position is copied.
    fn position(&self) -> LogPosition;
    /// The end of a batch that was started before a restart and not finished.
    fn planned(&self) -> Option<LogPosition>;
    /// Records durably that a batch up to `to` is about to be sent.
    ///
    /// # Errors
    /// When it could not be recorded.
    fn plan(&mut self, to: LogPosition) -> Result<(), Error>;
    /// Records durably that everything before `to` is copied.
    ///
    /// # Errors
    /// When it could not be recorded.
    fn done(&mut self, to: LogPosition) -> Result<(), Error>;
    /// Bytes of the log after the last read.
    fn lag_bytes(&self) -> u64;
    /// Whether the backlog exceeds its limit.
    fn is_over(&self) -> bool;
    /// Whether giving up rows, once started, must continue.
    fn is_still_over(&self) -> bool;
}

/// Table, columns and batch limits of an output.
#[derive(Clone, Debug)]
pub struct OutputSettings {
    /// The output's name.
    pub name: String,
    /// The copied table.
    pub table: &'static TableSpec,
    /// Numbers of the copied columns.
    pub columns: Vec<usize>,
    /// When a batch is sent.
    pub limits: BatchLimits,
}

/// One output with everything that it needs.
pub struct Output {
    /// Table, columns and batch limits.
    pub settings: OutputSettings,
    /// Reads the rows.
    pub source: Box<dyn LogReader>,
    /// Receives the rows.
    pub target: OutputTarget,
    /// Shared status.
    pub status: Arc<OutputStatus>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Becomes true on shutdown.
    pub ended: watch::Receiver<bool>,
}

/// How often waits are interrupted to check for shutdown and backlog.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// How often a position without rows to send is recorded.
const IDLE_SAVE: Duration = Duration::from_secs(2);
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// How sending a batch ended.
enum DeliveryOutcome {
    Done,
    GivenUp,
    Ended,
}

impl Output {
    /// Runs until shutdown. Blocks the calling thread.
    pub fn run(self) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        match runtime {
            Ok(runtime) => OutputWorker::new(self, runtime).run(),
            Err(error) => {
                let error = Error::caused_by("cannot start the output", error);
                self.status.record_failure(&error);
            }
        }
    }

    /// Records the progress of the log.
    fn mark(&self) {
        self.status.mark(self.clock.now(), progress_of(&*self.source));
    }
}

fn progress_of(source: &dyn LogReader) -> LogProgress {
    LogProgress {
        end: source.end(),
        copied: source.position().sequence,
        lag_bytes: source.lag_bytes(),
    }
}

/// A running output.
struct OutputWorker {
    output: Output,
    runtime: Runtime,
    /// For JSON.
    encoder: Option<RowEncoder>,
    batch: Batch,
    /// When the first row of the batch was read.
    since: Option<Instant>,
    /// Rows that did not fit into the previous batch.
    rest: Option<CopiedRows>,
    /// The planned end of the batch, if it was started before a restart.
    until: Option<LogPosition>,
    saved: Instant,
}

impl OutputWorker {
    fn new(output: Output, runtime: Runtime) -> Self {
        let settings = &output.settings;
        let encoder = match output.target.0.form() {
            BatchForm::Json { has_timestamp } => {
                Some(RowEncoder::new(settings.table, &settings.columns, has_timestamp))
            }
            BatchForm::Columns => None,
        };
        let until = output.source.planned();
        let mut worker = Self {
            output,
            runtime,
            encoder,
            batch: Batch::default(),
            since: None,
            rest: None,
            until,
            saved: Instant::now(),
        };
        worker.start_batch();
        worker
    }

    fn start_batch(&mut self) {
        let source = &self.output.source;
        self.batch = Batch::new(source.epoch(), source.position());
        self.since = None;
    }

    fn run(mut self) {
        while !self.is_ended() {
            self.output.mark();
            let outcome =
                if self.output.source.is_over() { self.give_up(None) } else { self.step() };
            if let Err(error) = outcome {
                tracing::warn!("output `{}`: {}", self.output.settings.name, error.one_line());
                self.output.status.record_failure(&error);
                self.pause(PAUSE_MIN, false);
            }
        }
    }

    fn is_ended(&self) -> bool {
        *self.output.ended.borrow()
    }

    /// Reads once, and sends when the batch is full or old enough.
    fn step(&mut self) -> Result<(), Error> {
        let piece = match self.rest.take() {
            Some(rest) => Some(rest),
            None => self.output.source.read(self.patience())?,
        };
        let mut is_full = false;
        if let Some(piece) = piece {
            self.count_lost_records(&piece);
            let limits = &self.output.settings.limits;
            let plan = FillPlan { limits, until: self.until, encoder: self.encoder.as_ref() };
            (self.rest, is_full) = self.batch.fill(piece, &plan);
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
        self.since.map_or(CHECK_INTERVAL, |since| {
            wait.saturating_sub(since.elapsed()).min(CHECK_INTERVAL)
        })
    }

    fn count_lost_records(&self, piece: &CopiedRows) {
        if piece.lost_records > 0 {
            let lost = piece.lost_records;
            let message = format!("{lost} records of the log were deleted before they were copied");
            self.output.status.record_failure(&Error::new(message));
        }
    }

    /// Records the position of a batch without rows.
    fn save(&mut self) -> Result<(), Error> {
        self.saved = Instant::now();
        if self.batch.to > self.output.source.position() {
            self.output.source.done(self.batch.to)?;
        }
        Ok(())
    }

    /// Sends the batch until all of its rows are settled, given up or left for the next start.
    fn send(&mut self) -> Result<(), Error> {
        let to = self.batch.to;
        if !self.batch.is_empty() {
            if self.until.is_none() {
                self.output.source.plan(to)?;
                self.until = Some(to);
            }
            let mut pending = PendingRows::new(&self.batch);
            let outcome = self.deliver(&mut pending);
            self.settle(&pending);
            match outcome {
                DeliveryOutcome::Ended => return Ok(()),
                DeliveryOutcome::GivenUp => return self.give_up(Some(pending.rows.len())),
                DeliveryOutcome::Done => {}
            }
        }
        self.until = None;
        // Do not resend rows only because their position cannot be recorded right now.
        while let Err(error) = self.output.source.done(to) {
            self.output.status.record_failure(&error);
            self.pause(PAUSE_MIN, false);
            if self.is_ended() {
                return Ok(());
            }
        }
        self.start_batch();
        Ok(())
    }

    fn settle(&self, pending: &PendingRows) {
        let status = &self.output.status;
        status.record_refusals(&pending.refused);
        let bytes = self.batch.byte_count() as u64;
        status.change(|figures| {
            figures.rows += pending.copied + pending.repeats;
            figures.repeats += pending.repeats;
            if pending.rows.is_empty() {
                figures.batches += 1;
                figures.bytes += bytes;
            }
        });
    }

    fn deliver(&mut self, pending: &mut PendingRows) -> DeliveryOutcome {
        let mut pause = PAUSE_MIN;
        loop {
            match self.attempt(pending) {
                Some(Ok(())) => {
                    self.output.status.change(|figures| figures.error = None);
                    return DeliveryOutcome::Done;
                }
                Some(Err(error)) => {
                    let name = &self.output.settings.name;
                    tracing::warn!(
                        "output `{name}`: {}; retrying in {:.1} s",
                        error.one_line(),
                        pause.as_secs_f64()
                    );
                    self.output.status.record_failure(&error);
                    self.pause(pause, true);
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                None => {}
            }
            if self.is_ended() {
                return DeliveryOutcome::Ended;
            }
            if self.output.source.is_over() {
                return DeliveryOutcome::GivenUp;
            }
        }
    }

    /// One attempt; `None` when it was interrupted by shutdown or too large a backlog.
    fn attempt(&mut self, pending: &mut PendingRows) -> Option<Result<(), Error>> {
        let Output { target, source, status, clock, ended, .. } = &mut self.output;
        self.runtime.block_on(async {
            let mut sending = target.0.send(&self.batch, pending);
            loop {
                tokio::select! {
                    outcome = &mut sending => return Some(outcome),
                    _ = ended.wait_for(|is_ended| *is_ended) => return None,
                    () = tokio::time::sleep(CHECK_INTERVAL) => {
                        status.mark(clock.now(), progress_of(&**source));
                        if source.is_over() {
                            return None;
                        }
                    }
                }
            }
        })
    }

    /// Waits until `span` is over, or until shutdown; with `stops_when_over`, also until the
    /// backlog exceeds its limit.
    fn pause(&mut self, span: Duration, stops_when_over: bool) {
        let end = Instant::now() + span;
        while Instant::now() < end
            && !self.is_ended()
            && !(stops_when_over && self.output.source.is_over())
        {
            let left = end.saturating_duration_since(Instant::now()).min(CHECK_INTERVAL);
            let mut ended = self.output.ended.clone();
            let wait = async move {
                let _ = tokio::time::timeout(left, ended.wait_for(|is_ended| *is_ended)).await;
            };
            self.runtime.block_on(wait);
            self.output.mark();
        }
    }

    /// Gives up the oldest rows: the `pending` rows of the batch, or the whole batch if it was not
    /// sent yet, and the following rows of the log until the backlog is small enough.
    fn give_up(&mut self, pending: Option<usize>) -> Result<(), Error> {
        let mut lost = pending.unwrap_or(self.batch.rows.len()) as u64;
        let mut to = self.batch.to;
        if let Some(rest) = self.rest.take() {
            lost += rest.places.len() as u64;
            to = rest.next;
        }
        self.until = None;
        self.start_batch();
        let mut problem = None;
        while self.output.source.is_still_over() && !self.is_ended() {
            match self.output.source.read(Duration::ZERO) {
                Ok(Some(piece)) => {
                    lost += piece.places.len() as u64;
                    to = piece.next;
                }
                Ok(None) => break,
                Err(error) => {
                    problem = Some(error);
                    break;
                }
            }
        }
        self.batch.to = to;
        if lost > 0 {
            let name = &self.output.settings.name;
            tracing::error!(
                "output `{name}`: gave up {lost} rows, because the backlog exceeded `keep_bytes`"
            );
            self.output.status.change(|figures| figures.rows_lost += lost);
        }
        self.output.source.done(to)?;
        problem.map_or(Ok(()), Err)
    }
}
