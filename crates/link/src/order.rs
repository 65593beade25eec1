//! Orders on the link: what a hub sends to an agent, what the agent's host answers, and who carries
//! them on each side. The link reads no order: its body is signed for the host's root helper.

use std::collections::HashMap;
use std::pin::Pin;

use tokio::sync::{mpsc, oneshot};

use crate::error::{LinkError, LinkErrorKind};

/// Size limit of a signed order in bytes.
pub const ORDER_BYTES_MAX: usize = 16 << 10;
/// Orders of one agent that may await their answers.
pub(crate) const ORDERS_IN_FLIGHT: usize = 16;

/// An order of the hub, signed for a host. The link carries it and does not read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CarriedOrder {
    /// The order's identity, as in its body.
    pub id: [u8; 16],
    /// End of its validity, in microseconds since 1970.
    pub not_after_micros: i64,
    /// The signed order, at most [`ORDER_BYTES_MAX`].
    pub body: Vec<u8>,
}

/// What a host did with an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderAnswerCode {
    /// It runs.
    Taken,
    /// It was taken before, and does not run again.
    Seen,
    /// It does not run.
    Refused,
}

const CODES: [OrderAnswerCode; 3] =
    [OrderAnswerCode::Taken, OrderAnswerCode::Seen, OrderAnswerCode::Refused];

impl OrderAnswerCode {
    /// The code's place in a message's list of codes.
    pub(crate) fn index(self) -> usize {
        CODES.iter().position(|known| *known == self).unwrap_or(usize::MAX)
    }

    /// The code at a place; one of a newer version counts as refused.
    pub(crate) fn at(index: usize) -> Self {
        CODES.get(index).copied().unwrap_or(Self::Refused)
    }
}

/// A host's answer to an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderAnswer {
    /// What the host did.
    pub code: OrderAnswerCode,
    /// Why, for people.
    pub why: String,
}

/// Carries orders to the host's helper. The agent implements it.
pub trait OrderCarrier: Send + Sync {
    /// Hands an order to the helper; the answer comes before the steps have ended.
    fn carry(&self, order: CarriedOrder) -> CarryFuture;
}

/// An [`OrderCarrier::carry`] under way.
pub type CarryFuture = Pin<Box<dyn Future<Output = OrderAnswer> + Send>>;

/// An order that awaits its agent's answer.
pub(crate) struct PendingOrder {
    pub(crate) order: CarriedOrder,
    pub(crate) answer: oneshot::Sender<OrderAnswer>,
}

/// The hub's end of an agent's orders.
#[derive(Clone)]
pub(crate) struct OrderSender {
    queue: mpsc::Sender<PendingOrder>,
    /// Whether the agent handles orders.
    can_order: bool,
}

impl OrderSender {
    pub(crate) fn new(can_order: bool) -> (Self, mpsc::Receiver<PendingOrder>) {
        let (queue, orders) = mpsc::channel(ORDERS_IN_FLIGHT);
        (Self { queue, can_order }, orders)
    }

    /// Queues an order, and returns where its answer arrives.
    pub(crate) fn send(
        &self,
        agent: &str,
        order: CarriedOrder,
    ) -> Result<oneshot::Receiver<OrderAnswer>, LinkError> {
        if !self.can_order {
            let text = format!("the agent `{agent}` takes no orders");
            return Err(LinkError::new(LinkErrorKind::Protocol, text)
                .hint("update weir on its host, and set `act.socket` there"));
        }
        let (answer, answers) = oneshot::channel();
        let sent = self.queue.try_send(PendingOrder { order, answer });
        sent.map(|()| answers).map_err(|_| {
            let text =
                format!("cannot order `{agent}`: too many orders wait, or its connection ended");
            LinkError::new(LinkErrorKind::Unreachable, text)
        })
    }
}

/// Orders of one connection that were sent and have no answer.
#[derive(Default)]
pub(crate) struct SentOrders(HashMap<[u8; 16], oneshot::Sender<OrderAnswer>>);

impl SentOrders {
    /// Whether another order may be sent. Callers that gave up hold no place.
    pub(crate) fn has_place(&mut self) -> bool {
        self.0.retain(|_, answer| !answer.is_closed());
        self.0.len() < ORDERS_IN_FLIGHT
    }

    pub(crate) fn insert(&mut self, id: [u8; 16], answer: oneshot::Sender<OrderAnswer>) {
        self.0.insert(id, answer);
    }

    pub(crate) fn settle(&mut self, id: [u8; 16], answer: OrderAnswer) {
        if let Some(waiting) = self.0.remove(&id) {
            let _ = waiting.send(answer);
        }
    }
}
