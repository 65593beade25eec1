//! Orders to agents that are connected to another hub of the cluster.
//!
//! ```text
//!   leader: run in the ledger ─► signed order ─► POST /api/cluster/order ─► hub with the agent ─► agent ─► weir-act
//!                                        │ "absent": nothing was sent, the next hub is tried
//!                                        └ no answer: it may have been sent, and no other hub is tried
//! ```
//!
//! An order that arrives twice runs once: its id is in the host's journal.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use reqwest::{StatusCode, header};
use serde::{Deserialize, Serialize};
use weir_actions::OrderOutcome;
use weir_link::{CarriedOrder, OrderAnswer, OrderAnswerCode};
use weir_store::Store;

/// A hub that takes no connection within this gets no order.
const CONNECT: Duration = Duration::from_secs(2);
/// Longest wait for an answer: the other hub waits 20 s for its host's.
const ANSWER: Duration = Duration::from_secs(25);

/// A signed order on its way to the hub that has the agent.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PeerOrder {
    /// The agent.
    pub(crate) agent: String,
    /// Not begun after; microseconds since 1970.
    pub(crate) not_after_us: i64,
    /// The signed order, in Base64.
    pub(crate) body: String,
}

/// What became of an order at the other hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PeerAnswerCode {
    /// The host accepted it.
    Taken,
    /// The host had it before.
    Seen,
    /// It does not run.
    Refused,
    /// The agent is not connected there: nothing was sent.
    Absent,
    /// The host may have it, and did not answer.
    Unknown,
}

/// The answer to an order.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct PeerAnswer {
    pub(crate) code: PeerAnswerCode,
    /// Why it does not run.
    #[serde(default)]
    pub(crate) why: String,
}

impl PeerAnswer {
    pub(super) fn new(code: PeerAnswerCode, why: impl Into<String>) -> Self {
        Self { code, why: why.into() }
    }

    /// What a host answered.
    pub(super) fn of_host(answer: OrderAnswer) -> Self {
        let code = match answer.code {
            OrderAnswerCode::Taken => PeerAnswerCode::Taken,
            OrderAnswerCode::Seen => PeerAnswerCode::Seen,
            OrderAnswerCode::Refused => PeerAnswerCode::Refused,
        };
        Self { code, why: answer.why }
    }
}

/// What one hub makes of an order.
enum PeerAttempt {
    /// Nothing was sent there.
    NotSent,
    Answered(PeerAnswer),
    /// It may have been sent.
    Silent(String),
}

/// The other hubs.
pub(crate) struct PeerHubs {
    client: reqwest::Client,
    token: String,
}

impl PeerHubs {
    /// Other hubs, with the login that hubs have among each other.
    ///
    /// # Errors
    /// When no client can be made.
    pub(crate) fn new(token: String) -> Result<Self, reqwest::Error> {
        let builder = reqwest::Client::builder().no_proxy();
        let client = builder.connect_timeout(CONNECT).timeout(ANSWER).build()?;
        Ok(Self { client, token })
    }

    /// Sends an order to the hub that has the agent; `None` if its outcome is not known.
    pub(super) async fn send(
        &self,
        addresses: &[String],
        agent: &str,
        order: &CarriedOrder,
    ) -> Option<OrderOutcome> {
        let (agent, not_after_us) = (agent.to_owned(), order.not_after_micros);
        let order = PeerOrder { agent, not_after_us, body: BASE64_STANDARD.encode(&order.body) };
        for address in addresses {
            let answer = match self.post(address, &order).await {
                PeerAttempt::NotSent => continue,
                PeerAttempt::Answered(answer) => answer,
                PeerAttempt::Silent(why) => {
                    tracing::warn!("order to `{}` by way of {address}: {why}", order.agent);
                    return None;
                }
            };
            match answer.code {
                PeerAnswerCode::Absent => {}
                PeerAnswerCode::Taken => return Some(OrderOutcome::Accepted),
                PeerAnswerCode::Seen => return Some(OrderOutcome::Repeated),
                PeerAnswerCode::Refused => return Some(OrderOutcome::Refused(answer.why)),
                PeerAnswerCode::Unknown => return None,
            }
        }
        let why = format!("no hub that answers has a connection to `{}`", order.agent);
        Some(OrderOutcome::Refused(why))
    }

    async fn post(&self, address: &str, order: &PeerOrder) -> PeerAttempt {
        let url = format!("{}/api/cluster/order", address.trim_end_matches('/'));
        let body = serde_json::to_vec(order).expect("an order has only texts and numbers");
        let request = self.client.post(url).bearer_auth(&self.token);
        let request = request.header(header::CONTENT_TYPE, "application/json").body(body);
        let answer = match request.send().await {
            Ok(answer) => answer,
            Err(error) if error.is_connect() => return PeerAttempt::NotSent,
            Err(error) => return PeerAttempt::Silent(error.to_string()),
        };
        let status = answer.status();
        // It was refused before it was read: a login, an older version without this door.
        if status.is_client_error() && status != StatusCode::REQUEST_TIMEOUT {
            tracing::warn!("order to `{}`: {address} answers {status}", order.agent);
            return PeerAttempt::NotSent;
        }
        let bytes = answer.bytes().await.map_err(|error| error.to_string());
        let read = bytes.and_then(|bytes| {
            serde_json::from_slice(&bytes).map_err(|error| format!("it answers {status}: {error}"))
        });
        read.map_or_else(PeerAttempt::Silent, PeerAttempt::Answered)
    }
}

/// Addresses of the other hubs of a cluster.
pub(super) fn addresses(store: &Arc<Store>) -> Vec<String> {
    store.peers().into_iter().map(|peer| peer.address).collect()
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// A hub that answers each order with this text, and counts them; without a text it closes.
    async fn hub(answer: Option<&'static str>, count: Arc<Mutex<usize>>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = format!("http://{}", listener.local_addr().expect("bound"));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut read = vec![0; 64 << 10];
                let mut length = 0;
                while !read[..length].ends_with(b"}") {
                    length += stream.read(&mut read[length..]).await.expect("a request");
                }
                *count.lock() += 1;
                let Some(body) = answer else { continue };
                let (status, body) = body.split_once(' ').expect("a status");
                let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {}", body.len());
                let text = format!("{head}\r\nconnection: close\r\n\r\n{body}");
                stream.write_all(text.as_bytes()).await.expect("it is read");
            }
        });
        address
    }

    async fn sent(answers: &[Option<&'static str>]) -> (Option<OrderOutcome>, Vec<usize>) {
        let counts: Vec<Arc<Mutex<usize>>> = answers.iter().map(|_| Arc::default()).collect();
        let mut addresses = vec!["http://127.0.0.1:1".to_owned()];
        for (answer, count) in answers.iter().zip(&counts) {
            addresses.push(hub(*answer, Arc::clone(count)).await);
        }
        let hubs = PeerHubs::new("what-hubs-ask-each-other".to_owned()).expect("a client");
        let order = CarriedOrder { id: [7; 16], not_after_micros: 5, body: vec![1, 2, 3] };
        let outcome = hubs.send(&addresses, "web1", &order).await;
        (outcome, counts.iter().map(|count| *count.lock()).collect())
    }

    const ABSENT: &str = r#"200 {"code":"absent"}"#;
    const TAKEN: &str = r#"200 {"code":"taken"}"#;

    #[tokio::test]
    async fn order_goes_to_the_hub_that_has_the_agent_and_to_no_other() {
        let (outcome, counts) = sent(&[Some(ABSENT), Some(TAKEN), Some(TAKEN)]).await;
        assert_eq!((outcome, counts), (Some(OrderOutcome::Accepted), vec![1, 1, 0]));
        let refused = r#"200 {"code":"refused","why":"off"}"#;
        let (outcome, counts) = sent(&[Some("404 {}"), Some(refused), Some(TAKEN)]).await;
        assert_eq!(outcome, Some(OrderOutcome::Refused("off".to_owned())));
        assert_eq!(counts, [1, 1, 0]);
        let (outcome, _) = sent(&[Some(ABSENT)]).await;
        assert!(matches!(outcome, Some(OrderOutcome::Refused(why)) if why.contains("`web1`")));
    }

    #[tokio::test]
    async fn order_without_an_answer_goes_to_no_second_hub() {
        for silent in [None, Some("500 x"), Some("408 {}"), Some(r#"200 {"code":"unknown"}"#)] {
            let (outcome, counts) = sent(&[silent, Some(TAKEN)]).await;
            assert_eq!((outcome, counts), (None, vec![1, 0]), "{silent:?}");
        }
    }
}
