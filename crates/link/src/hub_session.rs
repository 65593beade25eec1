//! One agent's connection on the hub's side.
//!
//! ```text
//!   Parcel ─► append (first poll keeps the order) ─► in_flight ─► Accepted / Refused, and credit for its bytes
//!   Ask    ─► Positions            commit of the store ─► Committed, for watched streams
//! ```

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot, watch};
use weir_tables::{Micros, StreamId};

use crate::error::LinkError;
use crate::frame::{BODY_BYTES_MAX, FrameLimits};
use crate::hub::{AppendFuture, AppendResult, ClockOffset, Hub, Refusal};
use crate::message::{
    CAN_TELL_CLOCK, CAPABILITIES, GoodbyeCode, Hello, Message, RefusalReason, STREAMS_A_FRAME,
    StreamPosition, Welcome,
};
use crate::order::{PendingOrder, SentOrders};
use crate::registry::{Agent, Denial};
use crate::wire::{Inbox, Outbox};

/// Parcel bytes in flight per connection. A single parcel is always allowed.
const WINDOW_BYTES: u64 = 16 << 20;
/// Parcels being appended at a time.
const IN_FLIGHT: usize = 64;
/// Streams whose commits an agent may watch.
const WATCHED: usize = 16_384;
/// Interval of heartbeat and disk checks.
const TICK: Duration = Duration::from_secs(1);
/// Clock difference that is logged.
const CLOCK_MICROS: i64 = 30_000_000;
/// Interval of clock queries.
const CLOCK_EVERY: Duration = Duration::from_secs(10);
/// Flag in the nonce of a clock query. Heartbeat nonces count bytes and never have it.
const CLOCK_NONCE: u64 = 1 << 63;

struct InFlightParcel {
    sequence: u64,
    bytes: u64,
    append: AppendFuture,
}

type SettledParcel = (u64, u64, Result<AppendResult, Refusal>);

pub(crate) struct HubSession<'a, S> {
    hub: Arc<Hub>,
    /// The hub's number of this connection.
    id: u64,
    agent: Agent,
    inbox: Inbox<S>,
    outbox: &'a Outbox,
    cut: oneshot::Receiver<Denial>,
    orders: mpsc::Receiver<PendingOrder>,
    sent_orders: SentOrders,
    in_flight: FuturesUnordered<futures_util::future::BoxFuture<'static, SettledParcel>>,
    next_sequence: u64,
    received_bytes: u64,
    answered_bytes: u64,
    credit_bytes: u64,
    /// Last committed position sent to the agent.
    watched: HashMap<StreamId, Option<u64>>,
    is_paused: bool,
    last_sent: Instant,
    can_report_clock: bool,
    /// The last clock query: its nonce and when it was sent.
    clock_query: Option<(u64, Instant, Micros)>,
}

impl<'a, S> HubSession<'a, S>
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    pub(crate) fn new(
        (hub, id): (Arc<Hub>, u64),
        agent: Agent,
        inbox: Inbox<S>,
        outbox: &'a Outbox,
        (cut, orders): (oneshot::Receiver<Denial>, mpsc::Receiver<PendingOrder>),
    ) -> Self {
        Self {
            hub,
            id,
            agent,
            inbox,
            outbox,
            cut,
            orders,
            sent_orders: SentOrders::default(),
            in_flight: FuturesUnordered::new(),
            next_sequence: 0,
            received_bytes: 0,
            answered_bytes: 0,
            credit_bytes: WINDOW_BYTES,
            watched: HashMap::new(),
            is_paused: false,
            last_sent: Instant::now(),
            can_report_clock: false,
            clock_query: None,
        }
    }

    /// Runs until the connection ends. An error is sent to the agent.
    pub(crate) async fn run(mut self, version: u8, hello: &Hello) -> Result<(), Denial> {
        self.welcome(version, hello).await?;
        let mut commits = self.hub.intake.commits();
        let mut tick = tokio::time::interval(TICK);
        loop {
            let has_place = self.sent_orders.has_place();
            tokio::select! {
                message = self.inbox.next(), if self.in_flight.len() < IN_FLIGHT => match message {
                    Ok(Message::Goodbye { .. }) => return Ok(()),
                    Ok(message) => self.handle(message).await?,
                    Err(error) => return Err(error.into()),
                },
                Some(settled) = self.in_flight.next(), if !self.in_flight.is_empty() => self.settle(settled).await?,
                Some(pending) = self.orders.recv(), if has_place => self.send_order(pending).await?,
                Ok(()) = commits.changed() => self.send_committed(&mut commits).await?,
                _ = tick.tick() => self.tick().await?,
                denial = &mut self.cut => {
                    let ending = |_| Denial::new(GoodbyeCode::Ending, "the hub is ending", "");
                    return Err(denial.unwrap_or_else(ending));
                }
            }
        }
    }

    async fn welcome(&mut self, version: u8, hello: &Hello) -> Result<(), Denial> {
        let now = self.hub.clock.now();
        let ahead = hello.now_micros.saturating_sub(now.0);
        if ahead.saturating_abs() > CLOCK_MICROS {
            let seconds = ahead / 1_000_000;
            tracing::warn!(
                "the clock of the agent `{}` differs from this host's by {seconds} s, and so do the timestamps of its rows",
                self.agent.name
            );
        }
        let options = &self.hub.options;
        let other = BODY_BYTES_MAX;
        self.inbox.set_limits(FrameLimits { parcel: options.parcel_bytes + 8, other });
        let heartbeat = options.heartbeat.as_secs().clamp(1, 600);
        let welcome = Welcome {
            version,
            capabilities: CAPABILITIES & hello.capabilities,
            now_micros: now.0,
            credit_bytes: self.credit_bytes,
            parcel_bytes: u32::try_from(options.parcel_bytes).unwrap_or(u32::MAX),
            heartbeat_seconds: u16::try_from(heartbeat).expect("it is clamped"),
            program: options.program.clone(),
        };
        self.can_report_clock = hello.capabilities & CAN_TELL_CLOCK != 0;
        self.send(&Message::Welcome(welcome)).await?;
        Ok(self.query_clock().await?)
    }

    async fn send(&mut self, message: &Message) -> Result<(), LinkError> {
        self.last_sent = Instant::now();
        self.outbox.send(message).await
    }

    async fn handle(&mut self, message: Message) -> Result<(), Denial> {
        match message {
            Message::Parcel { sequence, bytes } => self.append(sequence, bytes).await?,
            Message::Ask { id, is_watching, streams } => {
                let claimed = self.hub.intake.claim(streams.clone()).await;
                claimed.map_err(|refusal| {
                    Denial::new(GoodbyeCode::Failed, refusal.text, refusal.hint)
                })?;
                let positions = self.hub.intake.positions(&streams);
                if is_watching {
                    self.watch(&positions)?;
                }
                self.send(&Message::Positions { id, positions }).await?;
            }
            Message::Renew { request } => {
                let certificate = self.hub.sign(&self.agent, &request)?;
                tracing::info!("renewed the certificate of the agent `{}`", self.agent.name);
                let name = self.agent.name.clone();
                self.send(&Message::Enrolled { name, certificate }).await?;
            }
            Message::Ping { nonce } => {
                self.send(&Message::Pong { nonce, now_micros: None }).await?;
            }
            Message::Pong { nonce, now_micros: Some(now) } => self.note_clock(nonce, now),
            Message::Pong { .. } => {}
            Message::Taken { id, answer } => self.sent_orders.settle(id, answer),
            _ => {
                let text = "the agent sent a message that only a hub may send";
                return Err(Denial::new(GoodbyeCode::Protocol, text, ""));
            }
        }
        Ok(())
    }

    /// Sends an order, unless its caller has given up.
    async fn send_order(&mut self, pending: PendingOrder) -> Result<(), LinkError> {
        let PendingOrder { order, answer } = pending;
        if answer.is_closed() {
            return Ok(());
        }
        self.sent_orders.insert(order.id, answer);
        self.send(&Message::Order(order)).await
    }

    async fn query_clock(&mut self) -> Result<(), LinkError> {
        let is_due = self.clock_query.is_none_or(|(_, at, _)| at.elapsed() >= CLOCK_EVERY);
        if !self.can_report_clock || !is_due {
            return Ok(());
        }
        let nonce = self.clock_query.map_or(CLOCK_NONCE, |(nonce, ..)| nonce + 1);
        self.clock_query = Some((nonce, Instant::now(), self.hub.clock.now()));
        self.send(&Message::Ping { nonce }).await
    }

    /// Computes the clock offset. The agent read its clock between query and reply, so the midpoint
    /// is off by at most half the round trip.
    fn note_clock(&mut self, nonce: u64, now_micros: i64) {
        let Some((_, sent, at)) = self.clock_query.filter(|(number, ..)| *number == nonce) else {
            return;
        };
        let round_trip = sent.elapsed();
        let middle = at + round_trip / 2;
        let offset_micros = now_micros.saturating_sub(middle.0);
        self.hub.note_clock(self.id, ClockOffset { at, offset_micros, round_trip });
    }

    fn watch(&mut self, positions: &[StreamPosition]) -> Result<(), Denial> {
        let committed = positions.iter().map(|position| (position.stream, position.committed));
        self.watched.extend(committed);
        if self.watched.len() > WATCHED {
            let text = format!("the agent watches more than {WATCHED} streams");
            return Err(Denial::new(GoodbyeCode::Protocol, text, ""));
        }
        Ok(())
    }

    async fn append(&mut self, sequence: u64, bytes: Vec<u8>) -> Result<(), Denial> {
        if sequence != self.next_sequence {
            let text = format!("received parcel {sequence} instead of {}", self.next_sequence);
            return Err(Denial::new(GoodbyeCode::Protocol, text, ""));
        }
        self.next_sequence += 1;
        let length = bytes.len() as u64;
        self.received_bytes += length;
        if self.received_bytes > self.credit_bytes && !self.in_flight.is_empty() {
            let text = "the agent exceeded its credit";
            return Err(Denial::new(GoodbyeCode::Protocol, text, ""));
        }
        let append = self.hub.intake.append(&self.agent.name, bytes);
        let mut in_flight = InFlightParcel { sequence, bytes: length, append };
        // The first poll enqueues the parcel in the store, which preserves the order of a stream.
        match futures_util::poll!(&mut in_flight.append) {
            std::task::Poll::Ready(outcome) => self.settle((sequence, length, outcome)).await,
            std::task::Poll::Pending => {
                self.in_flight.push(Box::pin(async move {
                    let outcome = in_flight.append.await;
                    (in_flight.sequence, in_flight.bytes, outcome)
                }));
                Ok(())
            }
        }
    }

    async fn settle(&mut self, (sequence, bytes, outcome): SettledParcel) -> Result<(), Denial> {
        self.answered_bytes += bytes;
        let answer = match outcome {
            Ok(AppendResult { rows, position }) => Message::Accepted { sequence, rows, position },
            Err(Refusal { reason, expected, text, hint }) => {
                let is_full = matches!(reason, RefusalReason::Full | RefusalReason::Busy);
                if is_full && !self.is_paused {
                    self.is_paused = true;
                    self.send(&Message::Pause { text: text.clone() }).await?;
                }
                Message::Refused { sequence, reason, expected, text, hint }
            }
        };
        self.send(&answer).await?;
        let credit = self.answered_bytes + WINDOW_BYTES;
        if credit >= self.credit_bytes + WINDOW_BYTES / 4 {
            self.credit_bytes = credit;
            self.send(&Message::Credit { bytes: credit }).await?;
        }
        Ok(())
    }

    async fn send_committed(&mut self, commits: &mut watch::Receiver<u64>) -> Result<(), Denial> {
        commits.borrow_and_update();
        let streams: Vec<StreamId> = self.watched.keys().copied().collect();
        let mut news = Vec::new();
        for position in self.hub.intake.positions(&streams) {
            let sent = self.watched.insert(position.stream, position.committed).flatten();
            if let Some(to) = position.committed.filter(|to| sent.is_none_or(|sent| *to > sent)) {
                news.push((position.stream, to));
            }
        }
        for part in news.chunks(STREAMS_A_FRAME) {
            self.send(&Message::Committed(part.to_vec())).await?;
        }
        Ok(())
    }

    async fn tick(&mut self) -> Result<(), Denial> {
        let heartbeat = self.hub.options.heartbeat;
        // While its parcels wait for the store, nothing is read, so silence is expected.
        if self.in_flight.len() < IN_FLIGHT && self.inbox.last_received.elapsed() > heartbeat * 3 {
            let text =
                format!("no message from `{}` for {} s", self.agent.name, heartbeat.as_secs() * 3);
            return Err(Denial::new(GoodbyeCode::Silent, text, ""));
        }
        if self.last_sent.elapsed() >= heartbeat {
            self.send(&Message::Ping { nonce: self.answered_bytes }).await?;
        }
        self.query_clock().await?;
        if self.is_paused && self.hub.intake.trouble().is_none() {
            self.is_paused = false;
            self.send(&Message::Resume).await?;
        }
        Ok(())
    }
}
