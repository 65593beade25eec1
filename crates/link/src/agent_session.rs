//! One connection on the agent's side: what to send when, and what replies mean.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use weir_tables::{Parcel, StreamId};

use crate::client::{Connection, unexpected};
use crate::error::{LinkError, LinkErrorKind};
use crate::message::{
    CAN_PARCEL_2, CAN_RENEW, GoodbyeCode, Message, RefusalReason, STREAMS_A_FRAME, StreamPosition,
    Welcome,
};
use crate::order::{CarriedOrder, ORDERS_IN_FLIGHT, OrderAnswer, OrderAnswerCode};
use crate::spool::covering;
use crate::uplink::{DeliveryOutcome, PositionQuery, Shipment, Uplink, refuse};
use crate::wire::{Inbox, Outbox, is_set};

/// Samples in flight at a time. They are small, and each becomes durable by itself.
const SAMPLES_IN_FLIGHT: usize = 8;
/// How long to wait for outstanding replies when the agent ends.
const DRAIN_PATIENCE: Duration = Duration::from_secs(3);
/// Interval of heartbeat and certificate checks.
const TICK: Duration = Duration::from_secs(1);

/// A parcel that awaits its reply.
enum InFlight {
    Stream { shipment: Shipment, bytes: u64 },
    Sample { number: u64 },
}

pub(crate) struct AgentSession<'a> {
    uplink: &'a mut Uplink,
    address: String,
    welcome: Welcome,
    inbox: Inbox<TlsStream<TcpStream>>,
    outbox: Option<Outbox>,
    hub: Vec<u8>,
    in_flight: VecDeque<(u64, InFlight)>,
    samples_in_flight: usize,
    next_sequence: u64,
    sent_bytes: u64,
    in_flight_bytes: u64,
    credit_bytes: u64,
    is_paused: bool,
    /// Queries of this session about known streams; no parcel is sent before their replies.
    own_queries: HashSet<u32>,
    queries: HashMap<u32, PositionQuery>,
    next_query: u32,
    /// The spool's position at the hub, counting records in flight.
    samples_to: Option<u64>,
    is_sample_first: bool,
    /// A sample was refused: query the spool's position again once no sample is in flight.
    is_spool_lost: bool,
    /// Records that this hub cannot decode.
    bad_samples: BTreeSet<u64>,
    is_renewing: bool,
    /// Orders that the host's helper has not answered.
    orders: FuturesUnordered<BoxFuture<'static, ([u8; 16], OrderAnswer)>>,
    last_sent: Instant,
}

impl<'a> AgentSession<'a> {
    pub(crate) fn new(uplink: &'a mut Uplink, connection: Connection, address: String) -> Self {
        let Connection { welcome, inbox, outbox, hub } = connection;
        Self {
            uplink,
            address,
            credit_bytes: welcome.credit_bytes,
            welcome,
            inbox,
            outbox: Some(outbox),
            hub,
            in_flight: VecDeque::new(),
            samples_in_flight: 0,
            next_sequence: 0,
            sent_bytes: 0,
            in_flight_bytes: 0,
            is_paused: false,
            own_queries: HashSet::new(),
            queries: HashMap::new(),
            next_query: 0,
            samples_to: None,
            is_sample_first: false,
            is_spool_lost: false,
            bad_samples: BTreeSet::new(),
            is_renewing: false,
            orders: FuturesUnordered::new(),
            last_sent: Instant::now(),
        }
    }

    /// Runs until the connection ends; `None` when the agent ends.
    pub(crate) async fn run(mut self) -> Option<LinkError> {
        let outcome = self.exchange().await;
        self.give_up();
        if let Some(outbox) = self.outbox.take() {
            let (code, text, hint) = (GoodbyeCode::Ending, String::new(), String::new());
            let _ = outbox.send(&Message::Goodbye { code, text, hint }).await;
            outbox.end().await;
        }
        outcome.err()
    }

    async fn exchange(&mut self) -> Result<(), LinkError> {
        self.query_all_positions().await?;
        let mut tick = tokio::time::interval(TICK);
        let mut closing = self.uplink.closing.clone();
        loop {
            let can_send = self.can_send();
            let can_send_samples = self.can_send_samples();
            let shared = std::sync::Arc::clone(&self.uplink.shared);
            tokio::select! {
                biased;
                () = is_set(&mut closing) => break,
                message = self.inbox.next() => {
                    let message = message?;
                    self.handle(message).await?;
                }
                _ = tick.tick() => self.tick().await?,
                Some((id, answer)) = self.orders.next(), if !self.orders.is_empty() => {
                    self.send(&Message::Taken { id, answer }).await?;
                }
                Some(query) = self.uplink.queries.recv() => self.send_query(query).await?,
                () = shared.has_samples.notified(), if can_send_samples => self.send_samples().await?,
                Some(shipment) = self.uplink.shipments.recv(), if can_send => self.send_shipment(shipment).await?,
            }
        }
        let end = tokio::time::Instant::now() + DRAIN_PATIENCE;
        while !self.in_flight.is_empty() {
            let Ok(message) = tokio::time::timeout_at(end, self.inbox.next()).await else { break };
            self.handle(message?).await?;
        }
        Ok(())
    }

    fn can_send(&self) -> bool {
        self.own_queries.is_empty()
            && !self.is_paused
            && self.uplink.held.is_none()
            && (self.in_flight_bytes == 0
                || (self.in_flight_bytes < self.uplink.options.window_bytes
                    && self.sent_bytes < self.credit_bytes))
    }

    fn can_send_samples(&self) -> bool {
        self.own_queries.is_empty()
            && !self.is_paused
            && !self.is_spool_lost
            && self.samples_in_flight < if self.is_sample_first { 1 } else { SAMPLES_IN_FLIGHT }
    }

    /// Queries every known position at each connect: this may be another hub, or one restored from
    /// an older state.
    async fn query_all_positions(&mut self) -> Result<(), LinkError> {
        for known in self.uplink.known.values_mut() {
            (known.is_at_hub, known.is_rewound) = (false, false);
        }
        let spool = self.uplink.shared.spool().stream();
        self.send_own_query(true, vec![spool]).await?;
        let streams: Vec<StreamId> = self.uplink.known.keys().copied().collect();
        for part in streams.chunks(STREAMS_A_FRAME) {
            self.send_own_query(false, part.to_vec()).await?;
        }
        Ok(())
    }

    async fn send_own_query(
        &mut self,
        is_watching: bool,
        streams: Vec<StreamId>,
    ) -> Result<(), LinkError> {
        let id = self.next_query_id();
        self.own_queries.insert(id);
        self.send(&Message::Ask { id, is_watching, streams }).await
    }

    fn next_query_id(&mut self) -> u32 {
        self.next_query = self.next_query.wrapping_add(1);
        self.next_query
    }

    async fn send_query(&mut self, query: PositionQuery) -> Result<(), LinkError> {
        let id = self.next_query_id();
        let streams = query.streams.clone();
        self.queries.insert(id, query);
        self.send(&Message::Ask { id, is_watching: false, streams }).await
    }

    async fn send(&mut self, message: &Message) -> Result<(), LinkError> {
        self.last_sent = Instant::now();
        match &self.outbox {
            Some(outbox) => outbox.send(message).await,
            None => Err(LinkError::new(LinkErrorKind::Closed, "the connection is closed")),
        }
    }

    async fn handle(&mut self, message: Message) -> Result<(), LinkError> {
        match message {
            Message::Positions { id, positions } => self.handle_positions(id, &positions).await?,
            Message::Accepted { sequence, position, .. } => {
                let in_flight = self.take_in_flight(sequence)?;
                self.handle_accepted(in_flight, position);
                self.send_waiting().await?;
            }
            Message::Refused { sequence, reason, expected, text, .. } => {
                let in_flight = self.take_in_flight(sequence)?;
                self.handle_refused(in_flight, reason, expected, &text);
                self.send_waiting().await?;
            }
            Message::Committed(positions) => {
                let mut spool = self.uplink.shared.spool();
                let own = positions.iter().find(|(stream, _)| *stream == spool.stream());
                own.into_iter().for_each(|(_, to)| spool.free(*to));
            }
            Message::Credit { bytes } => self.credit_bytes = self.credit_bytes.max(bytes),
            Message::Pause { text } => {
                tracing::warn!("the hub `{}` has paused ingest: {text}", self.address);
                self.is_paused = true;
                self.uplink.shared.status().trouble = Some(text);
            }
            Message::Resume => {
                tracing::info!("the hub `{}` has resumed ingest", self.address);
                self.is_paused = false;
                self.uplink.shared.status().trouble = None;
                self.send_waiting().await?;
            }
            Message::Ping { nonce } => {
                let now_micros = Some(self.uplink.options.clock.now().0);
                self.send(&Message::Pong { nonce, now_micros }).await?;
            }
            Message::Pong { .. } => {}
            Message::Enrolled { certificate, .. } => self.handle_renewed(&certificate),
            Message::Order(order) => self.carry(order),
            other => return Err(unexpected(&self.address, other)),
        }
        Ok(())
    }

    /// Hands an order to the host's helper; its answer is sent when it is there.
    fn carry(&mut self, order: CarriedOrder) {
        let id = order.id;
        let why = match &self.uplink.options.orders {
            Some(carrier) if self.orders.len() < ORDERS_IN_FLIGHT => {
                let answer = carrier.carry(order);
                return self.orders.push(Box::pin(async move { (id, answer.await) }));
            }
            Some(_) => "too many orders wait for answers",
            None => "this agent takes no orders; set `act.socket`",
        };
        let answer = OrderAnswer { code: OrderAnswerCode::Refused, why: why.into() };
        self.orders.push(Box::pin(std::future::ready((id, answer))));
    }

    async fn handle_positions(
        &mut self,
        id: u32,
        positions: &[StreamPosition],
    ) -> Result<(), LinkError> {
        let spool = self.uplink.shared.spool().stream();
        for position in positions {
            if position.stream == spool {
                let mut spool = self.uplink.shared.spool();
                spool.seek(position.accepted);
                position.committed.into_iter().for_each(|to| spool.free(to));
                self.samples_to = position.accepted;
                continue;
            }
            // For a stream unknown to the hub, the first shipment sets the origin.
            let origin = position.accepted.unwrap_or(u64::MAX);
            let known = self.uplink.known_mut(position.stream, origin);
            known.is_at_hub = position.accepted.is_some();
        }
        if let Some(query) = self.queries.remove(&id) {
            let known = positions.iter().filter_map(|p| Some((p.stream, p.accepted?)));
            let _ = query.reply.send(Ok(known.collect()));
        }
        if self.own_queries.remove(&id) && self.own_queries.is_empty() {
            self.send_waiting().await?;
        }
        Ok(())
    }

    fn take_in_flight(&mut self, sequence: u64) -> Result<InFlight, LinkError> {
        let at = self.in_flight.iter().position(|(known, _)| *known == sequence);
        let Some((_, in_flight)) = at.and_then(|at| self.in_flight.remove(at)) else {
            let text = format!(
                "the hub `{}` replied to parcel {sequence}, which is not in flight",
                self.address
            );
            return Err(LinkError::protocol(text));
        };
        match &in_flight {
            InFlight::Stream { shipment, bytes } => {
                self.in_flight_bytes -= bytes;
                let known = self.uplink.known_mut(shipment.range.stream, shipment.range.from);
                known.in_flight = known.in_flight.saturating_sub(1);
            }
            InFlight::Sample { .. } => {
                self.samples_in_flight -= 1;
                self.is_sample_first = false;
            }
        }
        Ok(in_flight)
    }

    fn handle_accepted(&mut self, in_flight: InFlight, position: Option<u64>) {
        match in_flight {
            InFlight::Stream { shipment, .. } => {
                let known = self.uplink.known_mut(shipment.range.stream, shipment.range.from);
                known.is_at_hub = true;
                self.uplink.shared.status().accepted += 1;
                (shipment.report)(DeliveryOutcome::Accepted(position.unwrap_or(shipment.range.to)));
            }
            InFlight::Sample { number } => {
                let position = position.unwrap_or(number + 1);
                self.uplink.shared.spool().accept(position);
                self.bad_samples = self.bad_samples.split_off(&position);
            }
        }
    }

    fn handle_refused(
        &mut self,
        in_flight: InFlight,
        reason: RefusalReason,
        expected: u64,
        text: &str,
    ) {
        self.uplink.shared.status().resent += 1;
        match in_flight {
            InFlight::Stream { shipment, .. } => {
                let (stream, epoch, from) =
                    (shipment.range.stream, shipment.epoch, shipment.range.from);
                self.uplink.void(stream, epoch);
                let is_behind = reason == RefusalReason::Behind;
                if is_behind {
                    self.uplink.known_mut(stream, expected).is_at_hub = true;
                }
                if reason == RefusalReason::Bad {
                    // Skipping the parcel would lose lines, so keep retrying and make it visible.
                    tracing::error!("the hub refuses rows of stream {stream}: {text}");
                }
                let position = if is_behind { expected } else { from };
                (shipment.report)(DeliveryOutcome::Resend { position, is_busy: !is_behind });
            }
            InFlight::Sample { number } => {
                self.is_spool_lost = true;
                if reason == RefusalReason::Bad {
                    tracing::error!("the hub refuses a sample: {text}");
                    self.uplink.shared.status().dropped += 1;
                    self.bad_samples.insert(number);
                }
            }
        }
    }

    /// Sends waiting samples and the held shipment, as far as limits allow.
    async fn send_waiting(&mut self) -> Result<(), LinkError> {
        if self.is_spool_lost && self.samples_in_flight == 0 {
            self.is_spool_lost = false;
            let spool = self.uplink.shared.spool().stream();
            self.send_own_query(true, vec![spool]).await?;
        }
        if self.can_send_samples() {
            self.send_samples().await?;
        }
        if self.own_queries.is_empty()
            && !self.is_paused
            && let Some(held) = self.uplink.held.take()
        {
            self.send_shipment(held).await?;
        }
        Ok(())
    }

    async fn send_samples(&mut self) -> Result<(), LinkError> {
        while self.can_send_samples() {
            let next = self.uplink.shared.spool().next_record();
            let record = match next {
                Ok(Some(record)) => record,
                Ok(None) => return Ok(()),
                Err(error) => {
                    tracing::error!("{error}");
                    self.uplink.shared.status().dropped += 1;
                    continue;
                }
            };
            let number = record.number;
            if self.bad_samples.contains(&number) {
                continue;
            }
            let bytes = match self.samples_to {
                Some(position) if position < number => covering(&record, position)?,
                _ => record.bytes,
            };
            // The first record of a stream unknown to the hub must be durable before the next one.
            self.is_sample_first = self.samples_to.is_none();
            self.samples_to = Some(number + 1);
            self.samples_in_flight += 1;
            let bytes = readable(bytes, self.welcome.capabilities);
            self.send_parcel(InFlight::Sample { number }, bytes).await?;
        }
        Ok(())
    }

    async fn send_shipment(&mut self, shipment: Shipment) -> Result<(), LinkError> {
        if self.uplink.is_void(&shipment) {
            return Ok(());
        }
        let (stream, from) = (shipment.range.stream, shipment.range.from);
        let known = self.uplink.known_mut(stream, from);
        if !known.is_at_hub {
            if from > known.origin && !known.is_rewound {
                known.is_rewound = true;
                let position = known.origin;
                self.uplink.void(stream, shipment.epoch);
                (shipment.report)(DeliveryOutcome::Resend { position, is_busy: false });
                return Ok(());
            }
            // The hub accepts any start of an unknown stream, so it could not detect a gap after a
            // lost first parcel.
            if known.in_flight > 0 {
                self.uplink.held = Some(shipment);
                return Ok(());
            }
        }
        known.in_flight += 1;
        let mut shipment = shipment;
        let body = readable(std::mem::take(&mut shipment.bytes), self.welcome.capabilities);
        let bytes = body.len() as u64;
        self.in_flight_bytes += bytes;
        self.send_parcel(InFlight::Stream { shipment, bytes }, body).await
    }

    async fn send_parcel(&mut self, in_flight: InFlight, bytes: Vec<u8>) -> Result<(), LinkError> {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.sent_bytes += bytes.len() as u64;
        self.in_flight.push_back((sequence, in_flight));
        self.send(&Message::Parcel { sequence, bytes }).await
    }

    async fn tick(&mut self) -> Result<(), LinkError> {
        let heartbeat = Duration::from_secs(u64::from(self.welcome.heartbeat_seconds.max(1)));
        if self.inbox.last_received.elapsed() > heartbeat * 3 {
            let seconds = heartbeat.as_secs() * 3;
            let text = format!("no message from the hub `{}` for {seconds} s", self.address);
            return Err(LinkError::new(LinkErrorKind::Silent, text));
        }
        if self.last_sent.elapsed() >= heartbeat {
            self.send(&Message::Ping { nonce: self.sent_bytes }).await?;
        }
        self.renew().await
    }

    async fn renew(&mut self) -> Result<(), LinkError> {
        let now = self.uplink.options.clock.now();
        let own = self.uplink.identities.iter().find(|identity| identity.is_of(&self.hub));
        let due = own.filter(|identity| identity.is_renewal_due(now));
        if self.is_renewing || self.welcome.capabilities & CAN_RENEW == 0 {
            return Ok(());
        }
        let Some(identity) = due else { return Ok(()) };
        let request = identity.request()?;
        self.is_renewing = true;
        self.send(&Message::Renew { request }).await
    }

    fn handle_renewed(&mut self, certificate: &[u8]) {
        self.is_renewing = false;
        let own = self.uplink.identities.iter_mut().find(|identity| identity.is_of(&self.hub));
        match own.map(|identity| identity.renew(certificate)) {
            Some(Ok(())) => {
                tracing::info!("the hub `{}` renewed this agent's certificate", self.address)
            }
            Some(Err(error)) => tracing::error!("cannot renew the certificate: {error}"),
            None => {}
        }
    }

    /// Reports everything without a reply for resending, since the connection is over.
    fn give_up(&mut self) {
        for (_, query) in self.queries.drain() {
            refuse(&query, "the connection to the hub was lost");
        }
        for (_, in_flight) in std::mem::take(&mut self.in_flight) {
            let InFlight::Stream { shipment, .. } = in_flight else { continue };
            let (stream, from) = (shipment.range.stream, shipment.range.from);
            self.uplink.known_mut(stream, from).in_flight = 0;
            self.uplink.void(stream, shipment.epoch);
            self.uplink.shared.status().resent += 1;
            (shipment.report)(DeliveryOutcome::Resend { position: from, is_busy: false });
        }
    }
}

/// Encodes the parcel in a version that the hub reads. The hub itself refuses invalid parcels.
fn readable(parcel: Vec<u8>, capabilities: u64) -> Vec<u8> {
    if capabilities & CAN_PARCEL_2 != 0 {
        return parcel;
    }
    Parcel::decode(&parcel).map(|decoded| decoded.encode_version_1()).unwrap_or(parcel)
}

#[cfg(test)]
mod tests {
    use weir_tables::{Batch, Micros, Rows, Sysctl, SysctlRows};

    use super::*;
    use crate::message::CAPABILITIES;

    #[test]
    fn a_hub_that_knows_only_version_1_gets_version_1() {
        let mut rows = SysctlRows::default();
        rows.push(&Sysctl {
            ts: Micros(1),
            host: "web1",
            name: "a",
            value: "b",
            ..Default::default()
        });
        let batch = Batch { table: SysctlRows::SPEC, rows: rows.finish() };
        let parcel = Parcel { range: None, batches: vec![batch] };
        let bytes = parcel.encode(true);
        assert_eq!(readable(bytes.clone(), CAPABILITIES), bytes);
        let older = readable(bytes, CAPABILITIES & !CAN_PARCEL_2);
        assert_eq!((&older[..4], older[4]), (&b"WPCL"[..], 1));
        let back = Parcel::decode(&older).expect("a parcel");
        assert_eq!(back.row_count(), parcel.row_count());
    }
}
