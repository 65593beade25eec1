//! One agent's connection, seen from the hub.
//!
//! ```text
//!   Parcel ─► append (first poll keeps the order) ─► flying ─► Accepted / Refused, and credit for its bytes
//!   Ask    ─► Positions            commit of the store ─► Committed, for streams that are watched
//! ```

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::stream::{FuturesUnordered, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{oneshot, watch};
use weir_tables::{Micros, StreamId};

use crate::error::LinkError;
use crate::frame::{BODY_BYTES_MAX, Limits};
use crate::hub::{Append, Appended, ClockOffset, Hub, Refusal};
use crate::message::{
    CAN_TELL_CLOCK, CAPABILITIES, Code, Hello, Message, Position, Reason, STREAMS_A_FRAME, Welcome,
};
use crate::registry::{Agent, Denial};
use crate::wire::{Inbox, Outbox};

/// Bytes of parcels that may be on their way on one connection; one parcel always may.
const WINDOW_BYTES: u64 = 16 << 20;
/// Parcels that are being appended at one time.
const FLYING: usize = 64;
/// Streams of which an agent may want to know when they are committed.
const WATCHED: usize = 16_384;
/// How often heartbeats and room are looked at.
const TICK: Duration = Duration::from_secs(1);
/// Clocks that differ by more are worth a word.
const CLOCK_MICROS: i64 = 30_000_000;
/// How often an agent is asked for its clock.
const CLOCK_EVERY: Duration = Duration::from_secs(10);
/// Set in the numbers of these questions; those of heartbeats count bytes and never have it.
const CLOCK_NONCE: u64 = 1 << 63;

struct Flying {
    sequence: u64,
    bytes: u64,
    append: Append,
}

type Settled = (u64, u64, Result<Appended, Refusal>);

pub(crate) struct Session<'a, S> {
    hub: Arc<Hub>,
    /// Of this connection, at the hub.
    id: u64,
    agent: Agent,
    inbox: Inbox<S>,
    outbox: &'a Outbox,
    cut: oneshot::Receiver<Denial>,
    flying: FuturesUnordered<futures::future::BoxFuture<'static, Settled>>,
    next_sequence: u64,
    received_bytes: u64,
    answered_bytes: u64,
    credit_bytes: u64,
    /// What the agent was told last.
    watched: HashMap<StreamId, Option<u64>>,
    is_paused: bool,
    spoken: Instant,
    tells_clock: bool,
    /// The last question for the agent's clock: its number and when it was asked.
    clock_asked: Option<(u64, Instant, Micros)>,
}

impl<'a, S> Session<'a, S>
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    pub(crate) fn new(
        (hub, id): (Arc<Hub>, u64),
        agent: Agent,
        inbox: Inbox<S>,
        outbox: &'a Outbox,
        cut: oneshot::Receiver<Denial>,
    ) -> Self {
        Self {
            hub,
            id,
            agent,
            inbox,
            outbox,
            cut,
            flying: FuturesUnordered::new(),
            next_sequence: 0,
            received_bytes: 0,
            answered_bytes: 0,
            credit_bytes: WINDOW_BYTES,
            watched: HashMap::new(),
            is_paused: false,
            spoken: Instant::now(),
            tells_clock: false,
            clock_asked: None,
        }
    }

    /// Until the connection ends; an error is what the agent is told.
    pub(crate) async fn run(mut self, version: u8, hello: &Hello) -> Result<(), Denial> {
        self.welcome(version, hello).await?;
        let mut commits = self.hub.intake.commits();
        let mut tick = tokio::time::interval(TICK);
        loop {
            tokio::select! {
                message = self.inbox.next(), if self.flying.len() < FLYING => match message {
                    Ok(Message::Goodbye { .. }) => return Ok(()),
                    Ok(message) => self.take(message).await?,
                    Err(error) => return Err(error.into()),
                },
                Some(settled) = self.flying.next(), if !self.flying.is_empty() => self.settle(settled).await?,
                Ok(()) = commits.changed() => self.tell_committed(&mut commits).await?,
                _ = tick.tick() => self.tick().await?,
                denial = &mut self.cut => {
                    let gone = || Denial::new(Code::Ending, "the hub is ending", "");
                    return Err(denial.unwrap_or_else(|_| gone()));
                }
            }
        }
    }

    async fn welcome(&mut self, version: u8, hello: &Hello) -> Result<(), Denial> {
        let now = self.hub.clock.now();
        if (hello.now_micros - now.0).abs() > CLOCK_MICROS {
            let seconds = (hello.now_micros - now.0) / 1_000_000;
            tracing::warn!(
                "the clock of the agent `{}` differs from this host's by {seconds} s; its rows are stamped by it",
                self.agent.name
            );
        }
        let options = &self.hub.options;
        let other = BODY_BYTES_MAX;
        self.inbox.set_limits(Limits { parcel: options.parcel_bytes + 8, other });
        let heartbeat = options.heartbeat.as_secs().clamp(1, 600);
        let welcome = Welcome {
            version,
            capabilities: CAPABILITIES & hello.capabilities,
            now_micros: now.0,
            credit_bytes: self.credit_bytes,
            parcel_bytes: u32::try_from(options.parcel_bytes).unwrap_or(u32::MAX),
            heartbeat_seconds: u16::try_from(heartbeat).expect("it was clamped"),
            program: options.program.clone(),
        };
        self.tells_clock = hello.capabilities & CAN_TELL_CLOCK != 0;
        self.say(&Message::Welcome(welcome)).await?;
        Ok(self.ask_clock().await?)
    }

    async fn say(&mut self, message: &Message) -> Result<(), LinkError> {
        self.spoken = Instant::now();
        self.outbox.send(message).await
    }

    async fn take(&mut self, message: Message) -> Result<(), Denial> {
        match message {
            Message::Parcel { sequence, bytes } => self.parcel(sequence, bytes).await?,
            Message::Ask { id, is_watching, streams } => {
                let claimed = self.hub.intake.claim(streams.clone()).await;
                claimed.map_err(|no| Denial::new(Code::Failed, no.text, no.hint))?;
                let positions = self.hub.intake.positions(&streams);
                if is_watching {
                    self.watch(&positions)?;
                }
                self.say(&Message::Positions { id, positions }).await?;
            }
            Message::Renew { request } => {
                let certificate = self.hub.sign(&self.agent, &request)?;
                tracing::info!("the agent `{}` has a new certificate", self.agent.name);
                let name = self.agent.name.clone();
                self.say(&Message::Enrolled { name, certificate }).await?;
            }
            Message::Ping { nonce } => {
                self.say(&Message::Pong { nonce, now_micros: None }).await?;
            }
            Message::Pong { nonce, now_micros: Some(now) } => self.note_clock(nonce, now),
            Message::Pong { .. } => {}
            _ => {
                let text = "the agent said what only a hub says";
                return Err(Denial::new(Code::Protocol, text, ""));
            }
        }
        Ok(())
    }

    async fn ask_clock(&mut self) -> Result<(), LinkError> {
        let is_due = self.clock_asked.is_none_or(|(_, at, _)| at.elapsed() >= CLOCK_EVERY);
        if !self.tells_clock || !is_due {
            return Ok(());
        }
        let nonce = self.clock_asked.map_or(CLOCK_NONCE, |(nonce, ..)| nonce + 1);
        self.clock_asked = Some((nonce, Instant::now(), self.hub.clock.now()));
        self.say(&Message::Ping { nonce }).await
    }

    /// The agent said its time somewhere between question and answer, so the middle is wrong by half of that at most.
    fn note_clock(&mut self, nonce: u64, now_micros: i64) {
        let Some((_, asked, at)) = self.clock_asked.filter(|(number, ..)| *number == nonce) else {
            return;
        };
        let round_trip = asked.elapsed();
        let middle = at + round_trip / 2;
        let offset_micros = now_micros.saturating_sub(middle.0);
        self.hub.note_clock(self.id, ClockOffset { at, offset_micros, round_trip });
    }

    fn watch(&mut self, positions: &[Position]) -> Result<(), Denial> {
        let told = positions.iter().map(|position| (position.stream, position.committed));
        self.watched.extend(told);
        if self.watched.len() > WATCHED {
            let text = format!("the agent watches more than {WATCHED} streams");
            return Err(Denial::new(Code::Protocol, text, ""));
        }
        Ok(())
    }

    async fn parcel(&mut self, sequence: u64, bytes: Vec<u8>) -> Result<(), Denial> {
        if sequence != self.next_sequence {
            let text = format!("parcel {sequence} came where {} was due", self.next_sequence);
            return Err(Denial::new(Code::Protocol, text, ""));
        }
        self.next_sequence += 1;
        let length = bytes.len() as u64;
        self.received_bytes += length;
        if self.received_bytes > self.credit_bytes && !self.flying.is_empty() {
            let text = "the agent sent more than it had credit for";
            return Err(Denial::new(Code::Protocol, text, ""));
        }
        let append = self.hub.intake.append(bytes);
        let mut flying = Flying { sequence, bytes: length, append };
        // The first poll puts the parcel in the store's queue; that is what keeps the order within a stream.
        match futures::poll!(&mut flying.append) {
            std::task::Poll::Ready(outcome) => self.settle((sequence, length, outcome)).await,
            std::task::Poll::Pending => {
                self.flying.push(Box::pin(async move {
                    let outcome = flying.append.await;
                    (flying.sequence, flying.bytes, outcome)
                }));
                Ok(())
            }
        }
    }

    async fn settle(&mut self, (sequence, bytes, outcome): Settled) -> Result<(), Denial> {
        self.answered_bytes += bytes;
        let answer = match outcome {
            Ok(Appended { rows, position }) => Message::Accepted { sequence, rows, position },
            Err(Refusal { reason, expected, text, hint }) => {
                let is_full = matches!(reason, Reason::Full | Reason::Busy);
                if is_full && !self.is_paused {
                    self.is_paused = true;
                    self.say(&Message::Pause { text: text.clone() }).await?;
                }
                Message::Refused { sequence, reason, expected, text, hint }
            }
        };
        self.say(&answer).await?;
        let credit = self.answered_bytes + WINDOW_BYTES;
        if credit >= self.credit_bytes + WINDOW_BYTES / 4 {
            self.credit_bytes = credit;
            self.say(&Message::Credit { bytes: credit }).await?;
        }
        Ok(())
    }

    async fn tell_committed(&mut self, commits: &mut watch::Receiver<u64>) -> Result<(), Denial> {
        commits.borrow_and_update();
        let streams: Vec<StreamId> = self.watched.keys().copied().collect();
        let mut news = Vec::new();
        for position in self.hub.intake.positions(&streams) {
            let told = self.watched.insert(position.stream, position.committed).flatten();
            if let Some(to) = position.committed.filter(|to| told.is_none_or(|told| *to > told)) {
                news.push((position.stream, to));
            }
        }
        for part in news.chunks(STREAMS_A_FRAME) {
            self.say(&Message::Committed(part.to_vec())).await?;
        }
        Ok(())
    }

    async fn tick(&mut self) -> Result<(), Denial> {
        let heartbeat = self.hub.options.heartbeat;
        // While its parcels wait for the store nothing more is read, so silence says nothing then.
        if self.flying.len() < FLYING && self.inbox.heard.elapsed() > heartbeat * 3 {
            let text = format!(
                "nothing was heard from `{}` for {} s",
                self.agent.name,
                heartbeat.as_secs() * 3
            );
            return Err(Denial::new(Code::Silent, text, ""));
        }
        if self.spoken.elapsed() >= heartbeat {
            self.say(&Message::Ping { nonce: self.answered_bytes }).await?;
        }
        self.ask_clock().await?;
        if self.is_paused && self.hub.intake.trouble().is_none() {
            self.is_paused = false;
            self.say(&Message::Resume).await?;
        }
        Ok(())
    }
}
