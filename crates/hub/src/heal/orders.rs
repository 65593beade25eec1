//! Signs orders and sends them to agents, each once.
//!
//! An order leaves only after its run is in the ledger. What is not known to be refused may have
//! run: silence is no answer, and the desk makes it an unknown outcome.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use weir_act::{Order, OrderMode, OrderSigner};
use weir_actions::{HealOrder, HealOrderKind, OrderOutcome, OrderReport};
use weir_link::{CarriedOrder, LinkErrorKind, OrderAnswerCode};
use weir_tables::{Clock, Micros};

use crate::fleet::Fleet;

/// Longest wait for a host's answer, which comes before its programs end.
const PATIENCE: Duration = Duration::from_secs(20);
/// Answers that wait for the next tick.
const ANSWERS_MAX: usize = 1_000;

/// Where orders go out, and answers come in.
pub(super) struct OrderDesk {
    fleet: Arc<Fleet>,
    signer: Option<Arc<OrderSigner>>,
    clock: Arc<dyn Clock>,
    answers: Arc<Mutex<Vec<OrderReport>>>,
}

impl OrderDesk {
    pub(super) fn new(
        fleet: &Arc<Fleet>,
        signer: Option<OrderSigner>,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        Self {
            fleet: Arc::clone(fleet),
            signer: signer.map(Arc::new),
            clock: Arc::clone(clock),
            answers: Arc::default(),
        }
    }

    /// The line that root of each host pins.
    pub(super) fn public_key(&self) -> Option<String> {
        self.signer.as_ref().map(|signer| signer.public_line().trim().to_owned())
    }

    /// Answers since the last call.
    pub(super) fn answers(&self) -> Vec<OrderReport> {
        std::mem::take(&mut *self.answers.lock())
    }

    /// Sends an order that is in the ledger; its answer arrives at a later tick.
    pub(super) fn send(&self, order: HealOrder) {
        let (fleet, signer) = (Arc::clone(&self.fleet), self.signer.clone());
        let (clock, answers) = (Arc::clone(&self.clock), Arc::clone(&self.answers));
        tokio::spawn(async move {
            let outcome = if clock.now() > Micros(order.not_after_us) {
                Some(OrderOutcome::Refused("it was too late to send it".to_owned()))
            } else {
                sent(&fleet, signer.as_deref(), &order).await
            };
            let Some(outcome) = outcome else { return };
            let (order_id, host, ts) = (order.order_id, order.host, clock.now());
            let mut waiting = answers.lock();
            if waiting.len() < ANSWERS_MAX {
                waiting.push(OrderReport { order_id, host, ts, outcome });
            }
        });
    }
}

/// What the host answered; `None` if it may have the order and did not answer.
async fn sent(
    fleet: &Fleet,
    signer: Option<&OrderSigner>,
    order: &HealOrder,
) -> Option<OrderOutcome> {
    let signed = match signed(signer, order) {
        Ok(signed) => signed,
        Err(why) => return Some(OrderOutcome::Refused(why)),
    };
    let Some(answer) = fleet.send_order(&order.host, signed, PATIENCE).await else {
        return Some(OrderOutcome::Refused("this hub has no agents".to_owned()));
    };
    match answer {
        Ok(answer) => Some(match answer.code {
            OrderAnswerCode::Taken => OrderOutcome::Accepted,
            OrderAnswerCode::Seen => OrderOutcome::Repeated,
            OrderAnswerCode::Refused => OrderOutcome::Refused(answer.why),
        }),
        Err(error) => {
            tracing::warn!("order {} to `{}`: {error}", order.order_id, order.host);
            let was_sent = matches!(error.kind, LinkErrorKind::Silent | LinkErrorKind::Cut);
            (!was_sent).then_some(OrderOutcome::Refused(error.message))
        }
    }
}

fn signed(signer: Option<&OrderSigner>, order: &HealOrder) -> Result<CarriedOrder, String> {
    let signer = signer.ok_or("this hub has no key for orders")?;
    let number = u128::from_str_radix(&order.order_id, 16).map_err(|error| error.to_string())?;
    let id = number.to_be_bytes();
    let signed = signer.sign(&Order {
        id,
        action: order.action.clone(),
        params: order.params.clone(),
        agent: order.host.clone(),
        finding_id: order.finding_id.clone(),
        not_after_micros: order.not_after_us,
        mode: match order.kind {
            HealOrderKind::Run => OrderMode::Run,
            HealOrderKind::Undo => OrderMode::Undo,
        },
        approved_by: order.approved_by.clone(),
    });
    let signed = signed.map_err(|error| error.to_string())?;
    let body = signed.as_bytes().to_vec();
    Ok(CarriedOrder { id, not_after_micros: order.not_after_us, body })
}
