//! One connection, seen from the agent: what is sent when, and what answers mean.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use weir_tables::{Parcel, StreamId};

use crate::client::{Connection, unexpected};
use crate::courier::{Courier, Outcome, Question, Shipment, refuse};
use crate::error::{Kind, LinkError};
use crate::message::{
    CAN_PARCEL_2, CAN_RENEW, Code, Message, Position, Reason, STREAMS_A_FRAME, Welcome,
};
use crate::spool::covering;
use crate::wire::{Inbox, Outbox, is_set};

/// Samples that are in flight at one time: they are small, and each is durable by itself.
const SAMPLES_FLYING: usize = 8;
/// How long the last answers may take when the agent ends.
const LAST_ANSWERS: Duration = Duration::from_secs(3);
/// How often heartbeats and certificates are looked at.
const TICK: Duration = Duration::from_secs(1);

/// A parcel that was sent and not answered.
enum Flying {
    Stream { shipment: Shipment, bytes: u64 },
    Sample { number: u64 },
}

pub(crate) struct Conversation<'a> {
    courier: &'a mut Courier,
    address: String,
    welcome: Welcome,
    inbox: Inbox<TlsStream<TcpStream>>,
    outbox: Option<Outbox>,
    hub: Vec<u8>,
    flying: VecDeque<(u64, Flying)>,
    samples_flying: usize,
    next_sequence: u64,
    sent_bytes: u64,
    flying_bytes: u64,
    credit_bytes: u64,
    is_paused: bool,
    /// Questions of ours about streams that were seen before; nothing is sent until they are answered.
    own_questions: HashSet<u32>,
    questions: HashMap<u32, Question>,
    next_question: u32,
    /// Where the spool stands at the hub, with what is in flight.
    samples_to: Option<u64>,
    is_sample_first: bool,
    /// A sample was refused: once no other one is on its way, the hub is asked where the spool stands.
    is_spool_lost: bool,
    /// Records that this hub does not understand.
    bad_samples: BTreeSet<u64>,
    is_renewing: bool,
    spoken: Instant,
}

impl<'a> Conversation<'a> {
    pub(crate) fn new(courier: &'a mut Courier, connection: Connection, address: String) -> Self {
        let Connection { welcome, inbox, outbox, hub } = connection;
        Self {
            courier,
            address,
            credit_bytes: welcome.credit_bytes,
            welcome,
            inbox,
            outbox: Some(outbox),
            hub,
            flying: VecDeque::new(),
            samples_flying: 0,
            next_sequence: 0,
            sent_bytes: 0,
            flying_bytes: 0,
            is_paused: false,
            own_questions: HashSet::new(),
            questions: HashMap::new(),
            next_question: 0,
            samples_to: None,
            is_sample_first: false,
            is_spool_lost: false,
            bad_samples: BTreeSet::new(),
            is_renewing: false,
            spoken: Instant::now(),
        }
    }

    /// Until the connection ends; `None` when the agent ends.
    pub(crate) async fn run(mut self) -> Option<LinkError> {
        let outcome = self.talk().await;
        self.give_up();
        if let Some(outbox) = self.outbox.take() {
            let (code, text, hint) = (Code::Ending, String::new(), String::new());
            let _ = outbox.send(&Message::Goodbye { code, text, hint }).await;
            outbox.end().await;
        }
        outcome.err()
    }

    async fn talk(&mut self) -> Result<(), LinkError> {
        self.ask_anew().await?;
        let mut tick = tokio::time::interval(TICK);
        let mut closing = self.courier.closing.clone();
        loop {
            let may_ship = self.may_ship();
            let may_sample = self.may_sample();
            let shared = std::sync::Arc::clone(&self.courier.shared);
            tokio::select! {
                biased;
                () = is_set(&mut closing) => break,
                message = self.inbox.next() => {
                    let message = message?;
                    self.take(message).await?;
                }
                _ = tick.tick() => self.tick().await?,
                Some(question) = self.courier.questions.recv() => self.ask(question).await?,
                () = shared.has_samples.notified(), if may_sample => self.send_samples().await?,
                Some(shipment) = self.courier.shipments.recv(), if may_ship => self.ship(shipment).await?,
            }
        }
        let end = tokio::time::Instant::now() + LAST_ANSWERS;
        while !self.flying.is_empty() {
            let Ok(message) = tokio::time::timeout_at(end, self.inbox.next()).await else { break };
            self.take(message?).await?;
        }
        Ok(())
    }

    fn may_ship(&self) -> bool {
        self.own_questions.is_empty()
            && !self.is_paused
            && self.courier.held.is_none()
            && (self.flying_bytes == 0
                || (self.flying_bytes < self.courier.options.window_bytes
                    && self.sent_bytes < self.credit_bytes))
    }

    fn may_sample(&self) -> bool {
        self.own_questions.is_empty()
            && !self.is_paused
            && !self.is_spool_lost
            && self.samples_flying < if self.is_sample_first { 1 } else { SAMPLES_FLYING }
    }

    /// Where everything stands is asked anew at each connect: the hub may be another one, or an older self.
    async fn ask_anew(&mut self) -> Result<(), LinkError> {
        for known in self.courier.known.values_mut() {
            (known.is_at_hub, known.is_rewound) = (false, false);
        }
        let spool = self.courier.shared.spool().stream();
        self.ask_own(true, vec![spool]).await?;
        let streams: Vec<StreamId> = self.courier.known.keys().copied().collect();
        for part in streams.chunks(STREAMS_A_FRAME) {
            self.ask_own(false, part.to_vec()).await?;
        }
        Ok(())
    }

    async fn ask_own(
        &mut self,
        is_watching: bool,
        streams: Vec<StreamId>,
    ) -> Result<(), LinkError> {
        let id = self.question_id();
        self.own_questions.insert(id);
        self.say(&Message::Ask { id, is_watching, streams }).await
    }

    fn question_id(&mut self) -> u32 {
        self.next_question = self.next_question.wrapping_add(1);
        self.next_question
    }

    async fn ask(&mut self, question: Question) -> Result<(), LinkError> {
        let id = self.question_id();
        let streams = question.streams.clone();
        self.questions.insert(id, question);
        self.say(&Message::Ask { id, is_watching: false, streams }).await
    }

    async fn say(&mut self, message: &Message) -> Result<(), LinkError> {
        self.spoken = Instant::now();
        match &self.outbox {
            Some(outbox) => outbox.send(message).await,
            None => Err(LinkError::new(Kind::Closed, "the connection is closed")),
        }
    }

    async fn take(&mut self, message: Message) -> Result<(), LinkError> {
        match message {
            Message::Positions { id, positions } => self.positions(id, &positions).await?,
            Message::Accepted { sequence, position, .. } => {
                let flying = self.answered(sequence)?;
                self.accepted(flying, position);
                self.go_on().await?;
            }
            Message::Refused { sequence, reason, expected, text, .. } => {
                let flying = self.answered(sequence)?;
                self.refused(flying, reason, expected, &text);
                self.go_on().await?;
            }
            Message::Committed(positions) => {
                let mut spool = self.courier.shared.spool();
                let own = positions.iter().find(|(stream, _)| *stream == spool.stream());
                own.into_iter().for_each(|(_, to)| spool.free(*to));
            }
            Message::Credit { bytes } => self.credit_bytes = self.credit_bytes.max(bytes),
            Message::Pause { text } => {
                tracing::warn!("the hub `{}` takes nothing for now: {text}", self.address);
                self.is_paused = true;
                self.courier.shared.status().trouble = Some(text);
            }
            Message::Resume => {
                tracing::info!("the hub `{}` takes rows again", self.address);
                self.is_paused = false;
                self.courier.shared.status().trouble = None;
                self.go_on().await?;
            }
            Message::Ping { nonce } => {
                let now_micros = Some(self.courier.options.clock.now().0);
                self.say(&Message::Pong { nonce, now_micros }).await?;
            }
            Message::Pong { .. } => {}
            Message::Enrolled { certificate, .. } => self.renewed(&certificate),
            other => return Err(unexpected(&self.address, other)),
        }
        Ok(())
    }

    async fn positions(&mut self, id: u32, positions: &[Position]) -> Result<(), LinkError> {
        let spool = self.courier.shared.spool().stream();
        for position in positions {
            if position.stream == spool {
                let mut spool = self.courier.shared.spool();
                spool.seek(position.accepted);
                position.committed.into_iter().for_each(|to| spool.free(to));
                self.samples_to = position.accepted;
                continue;
            }
            // A stream that the hub does not know begins where its first shipment will begin.
            let origin = position.accepted.unwrap_or(u64::MAX);
            let known = self.courier.known_mut(position.stream, origin);
            known.is_at_hub = position.accepted.is_some();
        }
        if let Some(question) = self.questions.remove(&id) {
            let known = positions.iter().filter_map(|p| Some((p.stream, p.accepted?)));
            let _ = question.answer.send(Ok(known.collect()));
        }
        if self.own_questions.remove(&id) && self.own_questions.is_empty() {
            self.go_on().await?;
        }
        Ok(())
    }

    fn answered(&mut self, sequence: u64) -> Result<Flying, LinkError> {
        let at = self.flying.iter().position(|(known, _)| *known == sequence);
        let Some((_, flying)) = at.and_then(|at| self.flying.remove(at)) else {
            let text = format!(
                "the hub `{}` answered parcel {sequence}, which was not sent",
                self.address
            );
            return Err(LinkError::protocol(text));
        };
        match &flying {
            Flying::Stream { shipment, bytes } => {
                self.flying_bytes -= bytes;
                let known = self.courier.known_mut(shipment.range.stream, shipment.range.from);
                known.flying = known.flying.saturating_sub(1);
            }
            Flying::Sample { .. } => {
                self.samples_flying -= 1;
                self.is_sample_first = false;
            }
        }
        Ok(flying)
    }

    fn accepted(&mut self, flying: Flying, position: Option<u64>) {
        match flying {
            Flying::Stream { shipment, .. } => {
                let known = self.courier.known_mut(shipment.range.stream, shipment.range.from);
                known.is_at_hub = true;
                self.courier.shared.status().accepted += 1;
                (shipment.report)(Outcome::Accepted(position.unwrap_or(shipment.range.to)));
            }
            Flying::Sample { number } => {
                let position = position.unwrap_or(number + 1);
                self.courier.shared.spool().accept(position);
                self.bad_samples = self.bad_samples.split_off(&position);
            }
        }
    }

    fn refused(&mut self, flying: Flying, reason: Reason, expected: u64, text: &str) {
        self.courier.shared.status().again += 1;
        match flying {
            Flying::Stream { shipment, .. } => {
                let (stream, epoch, from) =
                    (shipment.range.stream, shipment.epoch, shipment.range.from);
                self.courier.void(stream, epoch);
                let is_behind = reason == Reason::Behind;
                if is_behind {
                    self.courier.known_mut(stream, expected).is_at_hub = true;
                }
                if reason == Reason::Bad {
                    // Going on would lose its lines, so it must be seen.
                    tracing::error!("the hub does not understand rows of stream {stream}: {text}");
                }
                let position = if is_behind { expected } else { from };
                (shipment.report)(Outcome::Again { position, is_busy: !is_behind });
            }
            Flying::Sample { number } => {
                self.is_spool_lost = true;
                if reason == Reason::Bad {
                    tracing::error!("the hub does not understand a sample: {text}");
                    self.courier.shared.status().dropped += 1;
                    self.bad_samples.insert(number);
                }
            }
        }
    }

    /// Sends what waits, now that there may be room.
    async fn go_on(&mut self) -> Result<(), LinkError> {
        if self.is_spool_lost && self.samples_flying == 0 {
            self.is_spool_lost = false;
            let spool = self.courier.shared.spool().stream();
            self.ask_own(true, vec![spool]).await?;
        }
        if self.may_sample() {
            self.send_samples().await?;
        }
        if self.own_questions.is_empty()
            && !self.is_paused
            && let Some(held) = self.courier.held.take()
        {
            self.ship(held).await?;
        }
        Ok(())
    }

    async fn send_samples(&mut self) -> Result<(), LinkError> {
        while self.may_sample() {
            let next = self.courier.shared.spool().next_record();
            let record = match next {
                Ok(Some(record)) => record,
                Ok(None) => return Ok(()),
                Err(error) => {
                    tracing::error!("{error}");
                    self.courier.shared.status().dropped += 1;
                    continue;
                }
            };
            let number = record.number;
            if self.bad_samples.contains(&number) {
                continue;
            }
            let bytes = match self.samples_to {
                Some(stands) if stands < number => covering(&record, stands)?,
                _ => record.bytes,
            };
            // The first of a stream that the hub does not know has to be durable before the next one is sent.
            self.is_sample_first = self.samples_to.is_none();
            self.samples_to = Some(number + 1);
            self.samples_flying += 1;
            let bytes = readable(bytes, self.welcome.capabilities);
            self.send_parcel(Flying::Sample { number }, bytes).await?;
        }
        Ok(())
    }

    async fn ship(&mut self, shipment: Shipment) -> Result<(), LinkError> {
        if self.courier.is_void(&shipment) {
            return Ok(());
        }
        let (stream, from) = (shipment.range.stream, shipment.range.from);
        let known = self.courier.known_mut(stream, from);
        if !known.is_at_hub {
            if from > known.origin && !known.is_rewound {
                known.is_rewound = true;
                let position = known.origin;
                self.courier.void(stream, shipment.epoch);
                (shipment.report)(Outcome::Again { position, is_busy: false });
                return Ok(());
            }
            // A stream that the hub does not know may begin anywhere: a gap behind its first parcel would not be noticed.
            if known.flying > 0 {
                self.courier.held = Some(shipment);
                return Ok(());
            }
        }
        known.flying += 1;
        let mut shipment = shipment;
        let body = readable(std::mem::take(&mut shipment.bytes), self.welcome.capabilities);
        let bytes = body.len() as u64;
        self.flying_bytes += bytes;
        self.send_parcel(Flying::Stream { shipment, bytes }, body).await
    }

    async fn send_parcel(&mut self, flying: Flying, bytes: Vec<u8>) -> Result<(), LinkError> {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.sent_bytes += bytes.len() as u64;
        self.flying.push_back((sequence, flying));
        self.say(&Message::Parcel { sequence, bytes }).await
    }

    async fn tick(&mut self) -> Result<(), LinkError> {
        let heartbeat = Duration::from_secs(u64::from(self.welcome.heartbeat_seconds.max(1)));
        if self.inbox.heard.elapsed() > heartbeat * 3 {
            let seconds = heartbeat.as_secs() * 3;
            let text = format!("nothing was heard from the hub `{}` for {seconds} s", self.address);
            return Err(LinkError::new(Kind::Silent, text));
        }
        if self.spoken.elapsed() >= heartbeat {
            self.say(&Message::Ping { nonce: self.sent_bytes }).await?;
        }
        self.renew().await
    }

    async fn renew(&mut self) -> Result<(), LinkError> {
        let now = self.courier.options.clock.now();
        let own = self.courier.identities.iter().find(|identity| identity.is_of(&self.hub));
        let due = own.filter(|identity| identity.is_renewal_due(now));
        if self.is_renewing || self.welcome.capabilities & CAN_RENEW == 0 {
            return Ok(());
        }
        let Some(identity) = due else { return Ok(()) };
        let request = identity.request()?;
        self.is_renewing = true;
        self.say(&Message::Renew { request }).await
    }

    fn renewed(&mut self, certificate: &[u8]) {
        self.is_renewing = false;
        let own = self.courier.identities.iter_mut().find(|identity| identity.is_of(&self.hub));
        match own.map(|identity| identity.renew(certificate)) {
            Some(Ok(())) => {
                tracing::info!("the hub `{}` renewed this agent's certificate", self.address)
            }
            Some(Err(error)) => tracing::error!("cannot renew the certificate: {error}"),
            None => {}
        }
    }

    /// The connection is over: what was not answered has to be sent again.
    fn give_up(&mut self) {
        for (_, question) in self.questions.drain() {
            refuse(&question, "the connection to the hub was cut");
        }
        for (_, flying) in std::mem::take(&mut self.flying) {
            let Flying::Stream { shipment, .. } = flying else { continue };
            let (stream, from) = (shipment.range.stream, shipment.range.from);
            self.courier.known_mut(stream, from).flying = 0;
            self.courier.void(stream, shipment.epoch);
            self.courier.shared.status().again += 1;
            (shipment.report)(Outcome::Again { position: from, is_busy: false });
        }
    }
}

/// The parcel in a version that the hub reads. What cannot be decoded is left for the hub to refuse.
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
