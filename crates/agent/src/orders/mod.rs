//! Orders of a hub for this host: carried as bytes to root's helper (`weir-act`), whose outcome
//! becomes rows of `action_run`. The agent itself runs nothing, and decides nothing.
//!
//! ```text
//!   link ─► order ─► orders/ID on disk ─► act.sock ─► first line ─► `taken` to the hub, a row
//!                         │                        └► last line  ─► a row, and the file is removed
//!                         └─ at the next start: presented again; the helper never runs one twice
//! ```

mod helper;
mod pending;
mod rows;

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::oneshot;
use weir_act::{Order, OrderCode, OrderReply, RunReport, RunState, SignedOrder};
use weir_link::{CarriedOrder, CarryFuture, OrderAnswer, OrderAnswerCode, OrderCarrier};
use weir_tables::{Clock, Micros};

use self::helper::{ActSocket, HelperAnswer, HelperError};
use self::pending::PendingOrders;
use self::rows::RunRow;
use crate::watch::deliver::Destination;

/// Attempts to learn what became of an order whose helper ended without a word.
const ATTEMPTS: u32 = 1000;
/// Longest pause between them.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Carries orders to the helper of this host.
pub struct HelperCarrier(Arc<CarrierState>);

struct CarrierState {
    host: String,
    socket: ActSocket,
    pending: PendingOrders,
    clock: Arc<dyn Clock>,
    destination: OnceLock<Arc<dyn Destination>>,
}

type AnswerSender = oneshot::Sender<OrderAnswer>;

impl HelperCarrier {
    /// A carrier to the helper at `socket`, for rows of `host`; orders that have no outcome yet are
    /// kept below `dir`.
    pub fn new(host: &str, socket: &Path, dir: &Path, clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(CarrierState {
            host: host.to_owned(),
            socket: ActSocket::new(socket),
            pending: PendingOrders::new(&dir.join("orders")),
            clock,
            destination: OnceLock::new(),
        }))
    }

    /// Sets where rows go, and presents orders of an earlier process again. Call it once, inside
    /// the runtime.
    pub fn start(&self, destination: Arc<dyn Destination>) {
        let _ = self.0.destination.set(destination);
        for signed in self.0.pending.all() {
            let state = Arc::clone(&self.0);
            tokio::spawn(async move { state.carry(signed, None).await });
        }
    }
}

impl OrderCarrier for HelperCarrier {
    fn carry(&self, order: CarriedOrder) -> CarryFuture {
        let signed = match SignedOrder::from_bytes(order.body) {
            Ok(signed) => signed,
            Err(error) => return Box::pin(std::future::ready(refused(error.line()))),
        };
        let (answer, answers) = oneshot::channel();
        let state = Arc::clone(&self.0);
        // A task of its own: the outcome is a row whatever becomes of the connection to the hub.
        tokio::spawn(async move { state.carry(signed, Some(answer)).await });
        Box::pin(async move { answers.await.unwrap_or_else(|_| refused("the agent ended".into())) })
    }
}

fn refused(why: String) -> OrderAnswer {
    OrderAnswer { code: OrderAnswerCode::Refused, why }
}

fn answer_of(reply: &OrderReply) -> OrderAnswer {
    let code = match reply.code {
        OrderCode::Taken => OrderAnswerCode::Taken,
        OrderCode::Seen => OrderAnswerCode::Seen,
        OrderCode::Refused => OrderAnswerCode::Refused,
    };
    OrderAnswer { code, why: reply.why.clone() }
}

impl CarrierState {
    async fn carry(&self, signed: SignedOrder, answer: Option<AnswerSender>) {
        let Ok(order) = signed.claim() else { return };
        let mut answer = AnswerOnce(answer);
        if let Err(error) = self.pending.keep(&order.id, signed.as_bytes()) {
            self.refuse(&order, error, &mut answer);
            return;
        }
        self.present(&signed, &order, &mut answer).await;
        self.pending.remove(&order.id);
    }

    /// Presents the order until its outcome is known, or that it cannot be.
    async fn present(&self, signed: &SignedOrder, order: &Order, answer: &mut AnswerOnce) {
        let mut is_taken = false;
        for attempt in 0..ATTEMPTS {
            let outcome = self.socket.present(signed.as_bytes(), |reply| {
                is_taken |= reply.code != OrderCode::Refused;
                answer.send(answer_of(reply));
                if reply.code == OrderCode::Taken {
                    self.send(&RunRow::of_order(order, "started"));
                }
            });
            match outcome.await {
                Ok(HelperAnswer { report: Some(report), .. }) => {
                    return self.report(order, &report);
                }
                Ok(HelperAnswer { reply, .. }) if !reply.has_report => {
                    return self.send(&RunRow::of_order(order, "refused").reason(&reply.why));
                }
                Err(HelperError::Absent(why)) if !is_taken => {
                    return self.refuse(order, why, answer);
                }
                // It ended or runs: the next attempt gets what the journal has by then.
                Ok(_) | Err(_) => {}
            }
            tokio::time::sleep(PAUSE_MAX.min(Duration::from_millis(20) * (attempt + 1))).await;
        }
        let why = format!("weir-act at `{}` did not report the order's end", self.socket);
        answer.send(OrderAnswer { code: OrderAnswerCode::Seen, why: why.clone() });
        self.send(&RunRow::of_order(order, "unknown").reason(&why));
    }

    fn refuse(&self, order: &Order, why: String, answer: &mut AnswerOnce) {
        self.send(&RunRow::of_order(order, "refused").reason(&why));
        answer.send(refused(why));
    }

    fn report(&self, order: &Order, report: &RunReport) {
        let state = match report.state {
            RunState::Planned | RunState::Ended => "ended",
            RunState::Failed => "failed",
            RunState::Unknown => "unknown",
        };
        self.send(&RunRow::of_order(order, state).report(report));
    }

    fn send(&self, row: &RunRow<'_>) {
        let now: Micros = self.clock.now();
        if let Some(destination) = self.destination.get() {
            destination.send_sample(vec![row.batch(&self.host, now)]);
        }
    }
}

/// The answer to the hub, which gets the first one.
struct AnswerOnce(Option<AnswerSender>);

impl AnswerOnce {
    fn send(&mut self, answer: OrderAnswer) {
        if let Some(sender) = self.0.take() {
            let _ = sender.send(answer);
        }
    }
}

#[cfg(test)]
mod tests;
