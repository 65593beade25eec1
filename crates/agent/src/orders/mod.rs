//! Orders of a hub for this host: carried as bytes to root's helper (`weir-act`), whose outcome
//! becomes rows of `action_run`. The agent itself runs nothing, and decides nothing. `weir up`
//! carries the orders for its own host in the same way, without a link.
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
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::oneshot;
use weir_act::{Order, OrderCode, OrderReply, RunReport, RunState, SignedOrder};
use weir_link::{CarriedOrder, CarryFuture, OrderAnswer, OrderAnswerCode, OrderCarrier};
use weir_tables::{Batch, Clock, Micros};

use self::helper::{ActSocket, HelperError};
use self::pending::PendingOrders;
use self::rows::RunRow;
use crate::watch::deliver::Destination;

/// Attempts to learn what became of an order whose helper ended without a word.
const ATTEMPTS: u32 = 1000;
/// Longest pause between them.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A [`RunRowSink::keep`] under way: whether the rows are kept.
pub type KeepFuture<'a> = Pin<Box<dyn Future<Output = bool> + Send + 'a>>;

/// Where rows about orders go.
pub trait RunRowSink: Send + Sync {
    /// Keeps rows beyond the end of this process. An order whose last row was not kept is presented
    /// to the helper again at the next start, for the same outcome.
    fn keep(&self, rows: Batch) -> KeepFuture<'_>;
}

/// A destination as a sink: an agent's spool keeps rows as soon as it has them.
struct SpooledRows(Arc<dyn Destination>);

impl RunRowSink for SpooledRows {
    fn keep(&self, rows: Batch) -> KeepFuture<'_> {
        self.0.send_sample(vec![rows]);
        Box::pin(std::future::ready(true))
    }
}

/// Carries orders to the helper of this host.
pub struct HelperCarrier(Arc<CarrierState>);

struct CarrierState {
    host: String,
    socket: ActSocket,
    pending: PendingOrders,
    clock: Arc<dyn Clock>,
    rows: OnceLock<Arc<dyn RunRowSink>>,
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
            rows: OnceLock::new(),
        }))
    }

    /// Starts with an agent's destination for the rows; see [`HelperCarrier::start_with`].
    pub fn start(&self, destination: Arc<dyn Destination>) {
        self.start_with(Arc::new(SpooledRows(destination)));
    }

    /// Sets where rows go, and presents orders of an earlier process again. Call it once, inside
    /// the runtime.
    pub fn start_with(&self, rows: Arc<dyn RunRowSink>) {
        let _ = self.0.rows.set(rows);
        for signed in self.0.pending.all() {
            let state = Arc::clone(&self.0);
            tokio::spawn(async move { state.carry_earlier(signed).await });
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
        tokio::spawn(async move { state.carry(signed, answer).await });
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
    async fn carry(&self, signed: SignedOrder, answer: AnswerSender) {
        let Ok(order) = signed.claim() else { return };
        let mut answer = AnswerOnce(Some(answer));
        if let Err(error) = self.pending.keep(&order.id, signed.as_bytes()) {
            self.refuse(&order, error, &mut answer).await;
            return;
        }
        if self.present(&signed, &order, &mut answer, false).await {
            self.pending.remove(&order.id);
        }
    }

    /// Carries an order of an earlier process, which the helper may have taken from that.
    async fn carry_earlier(&self, signed: SignedOrder) {
        let Ok(order) = signed.claim() else { return };
        if self.present(&signed, &order, &mut AnswerOnce(None), true).await {
            self.pending.remove(&order.id);
        }
    }

    /// Presents the order until its outcome is known, or that it cannot be; whether its last row is
    /// kept.
    async fn present(
        &self,
        signed: &SignedOrder,
        order: &Order,
        answer: &mut AnswerOnce,
        mut is_taken: bool,
    ) -> bool {
        for attempt in 0..ATTEMPTS {
            match self.socket.present(signed.as_bytes()).await {
                Ok(answered) => {
                    let reply = answered.reply.clone();
                    is_taken |= reply.code != OrderCode::Refused;
                    answer.send(answer_of(&reply));
                    if !reply.has_report {
                        let row = RunRow::of_order(order, "refused").reason(&reply.why);
                        return self.keep(&row).await;
                    }
                    if reply.code == OrderCode::Taken {
                        self.keep(&RunRow::of_order(order, "started")).await;
                    }
                    // Without a report it ended or runs: the next attempt gets what the journal has
                    // by then.
                    if let Some(report) = answered.report().await {
                        return self.report(order, &report).await;
                    }
                }
                Err(HelperError::Absent(why)) if !is_taken => {
                    return self.refuse(order, why, answer).await;
                }
                Err(_) => {}
            }
            tokio::time::sleep(PAUSE_MAX.min(Duration::from_millis(20) * (attempt + 1))).await;
        }
        let why = format!("weir-act at `{}` did not report the order's end", self.socket);
        answer.send(OrderAnswer { code: OrderAnswerCode::Seen, why: why.clone() });
        self.keep(&RunRow::of_order(order, "unknown").reason(&why)).await
    }

    async fn refuse(&self, order: &Order, why: String, answer: &mut AnswerOnce) -> bool {
        let row = RunRow::of_order(order, "refused").reason(&why);
        answer.send(refused(why));
        self.keep(&row).await
    }

    async fn report(&self, order: &Order, report: &RunReport) -> bool {
        let state = match report.state {
            RunState::Planned | RunState::Ended => "ended",
            RunState::Failed => "failed",
            RunState::Unknown => "unknown",
        };
        self.keep(&RunRow::of_order(order, state).report(report)).await
    }

    async fn keep(&self, row: &RunRow<'_>) -> bool {
        let now: Micros = self.clock.now();
        match self.rows.get() {
            Some(rows) => rows.keep(row.batch(&self.host, now)).await,
            None => false,
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
