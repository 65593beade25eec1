//! Signs orders and sends them to agents, or to the helper of the hub's own host, each once.
//!
//! An order leaves only after its run is in the ledger. What is not known to be refused may have
//! run: silence is no answer, and the desk makes it an unknown outcome.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use parking_lot::Mutex;
use weir_act::{Order, OrderMode, OrderSigner, OrderVerifier, PublicKey, SignedOrder};
use weir_actions::{HealOrder, HealOrderKind, OrderOutcome, OrderReport};
use weir_link::{CarriedOrder, LinkErrorKind};
use weir_store::Store;
use weir_tables::{Clock, Micros};

use super::own_host::OwnHost;
use super::peers::{self, PeerAnswer, PeerAnswerCode, PeerHubs, PeerOrder};
use crate::fleet::Fleet;

/// Longest wait for a host's answer, which comes before its programs end.
const PATIENCE: Duration = Duration::from_secs(20);
/// Answers that wait for the next tick.
const ANSWERS_MAX: usize = 1_000;

/// Where orders go out, and answers come in.
pub(super) struct OrderDesk {
    ways: Arc<OrderWays>,
    clock: Arc<dyn Clock>,
    answers: Arc<Mutex<Vec<OrderReport>>>,
}

/// The key of orders, and what carries them.
pub(super) struct OrderWays {
    pub(super) fleet: Arc<Fleet>,
    /// This host, if `weir up` watches it.
    pub(super) own: Option<OwnHost>,
    /// The directory with the key; another hub of the cluster may have made it. `None` signs nothing.
    pub(super) key_dir: Option<PathBuf>,
    pub(super) peers: PeerHubs,
    pub(super) store: Arc<Store>,
}

impl OrderDesk {
    pub(super) fn new(ways: OrderWays, clock: &Arc<dyn Clock>) -> Self {
        Self { ways: Arc::new(ways), clock: Arc::clone(clock), answers: Arc::default() }
    }

    /// The line that root of each host pins.
    pub(super) fn public_key(&self) -> Option<String> {
        self.ways.signer().ok().map(|signer| signer.public_line().trim().to_owned())
    }

    /// Whether this hub's own host gets orders.
    pub(super) fn has_own_host(&self) -> bool {
        self.ways.own.is_some()
    }

    /// Answers since the last call.
    pub(super) fn answers(&self) -> Vec<OrderReport> {
        std::mem::take(&mut *self.answers.lock())
    }

    /// Sends an order that is in the ledger; its answer arrives at a later tick.
    pub(super) fn send(&self, order: HealOrder) {
        let ways = Arc::clone(&self.ways);
        let (clock, answers) = (Arc::clone(&self.clock), Arc::clone(&self.answers));
        tokio::spawn(async move {
            let outcome = if clock.now() > Micros(order.not_after_us) {
                Some(OrderOutcome::Refused("it was too late to send it".to_owned()))
            } else {
                ways.send(&order).await
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

impl OrderWays {
    fn signer(&self) -> Result<OrderSigner, String> {
        let dir = self.key_dir.as_ref().ok_or("this hub has no key for orders")?;
        OrderSigner::open(dir).map_err(|error| error.to_string())
    }

    /// What the host answered; `None` if it may have the order and did not answer.
    async fn send(&self, order: &HealOrder) -> Option<OrderOutcome> {
        let signed = match self.signer().and_then(|signer| signed(&signer, order)) {
            Ok(signed) => signed,
            Err(why) => return Some(OrderOutcome::Refused(why)),
        };
        let answer = self.send_here(&order.host, signed.clone()).await;
        let others = peers::addresses(&self.store);
        match answer.code {
            PeerAnswerCode::Taken => Some(OrderOutcome::Accepted),
            PeerAnswerCode::Seen => Some(OrderOutcome::Repeated),
            PeerAnswerCode::Refused => Some(OrderOutcome::Refused(answer.why)),
            PeerAnswerCode::Unknown => None,
            PeerAnswerCode::Absent if others.is_empty() => Some(OrderOutcome::Refused(answer.why)),
            PeerAnswerCode::Absent => self.peers.send(&others, &order.host, &signed).await,
        }
    }

    /// Sends an order to this host, or to an agent of this hub.
    async fn send_here(&self, agent: &str, order: CarriedOrder) -> PeerAnswer {
        if let Some(own) = self.own.as_ref().filter(|own| own.is_named(agent)) {
            let answer = own.carry(order, PATIENCE).await;
            return answer.map_or_else(no_word, PeerAnswer::of_host);
        }
        let Some(answer) = self.fleet.send_order(agent, order, PATIENCE).await else {
            return PeerAnswer::new(PeerAnswerCode::Absent, "this hub has no agents");
        };
        match answer {
            Ok(answer) => PeerAnswer::of_host(answer),
            Err(error) => {
                tracing::warn!("order to `{agent}`: {error}");
                let code = match error.kind {
                    LinkErrorKind::Silent | LinkErrorKind::Cut => PeerAnswerCode::Unknown,
                    LinkErrorKind::Unreachable => PeerAnswerCode::Absent,
                    _ => PeerAnswerCode::Refused,
                };
                PeerAnswer::new(code, error.message)
            }
        }
    }

    /// Carries an order of the leader to an agent of this hub.
    async fn deliver(&self, order: &PeerOrder) -> Result<PeerAnswer, String> {
        let body = BASE64_STANDARD.decode(&order.body).map_err(|error| error.to_string())?;
        let signed = SignedOrder::from_bytes(body).map_err(|error| error.to_string())?;
        let key = PublicKey::parse(&self.signer()?.public_line());
        let verifier = OrderVerifier::new(key.map_err(|error| error.to_string())?);
        let claim = verifier.verify(&signed).map_err(|error| error.to_string())?;
        if claim.agent != order.agent || claim.not_after_micros != order.not_after_us {
            return Err("the order is for another agent or another time".to_owned());
        }
        let (id, not_after_micros) = (claim.id, claim.not_after_micros);
        let carried = CarriedOrder { id, not_after_micros, body: signed.as_bytes().to_vec() };
        Ok(self.send_here(&order.agent, carried).await)
    }
}

impl OrderDesk {
    /// Carries an order of the leader to an agent of this hub.
    ///
    /// # Errors
    /// The order is not signed by the cluster's key, or contradicts itself.
    pub(super) async fn deliver(&self, order: &PeerOrder) -> Result<PeerAnswer, String> {
        self.ways.deliver(order).await
    }
}

/// The answer of a helper that may have the order.
fn no_word() -> PeerAnswer {
    PeerAnswer::new(PeerAnswerCode::Unknown, "weir-act did not answer")
}

fn signed(signer: &OrderSigner, order: &HealOrder) -> Result<CarriedOrder, String> {
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
            HealOrderKind::DryRun => OrderMode::DryRun,
            HealOrderKind::Run => OrderMode::Run,
            HealOrderKind::Undo => OrderMode::Undo,
        },
        approved_by: order.approved_by.clone(),
    });
    let signed = signed.map_err(|error| error.to_string())?;
    let body = signed.as_bytes().to_vec();
    Ok(CarriedOrder { id, not_after_micros: order.not_after_us, body })
}
