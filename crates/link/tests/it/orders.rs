//! Orders from a hub to an agent over the real link: answers, refusals, and what is unknown.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use weir_link::{
    CarriedOrder, CarryFuture, LinkErrorKind, ORDER_BYTES_MAX, OrderAnswer, OrderAnswerCode,
    OrderCarrier,
};

use crate::kit::{RunningAgent, TestAgent, TestHub, wait_for};

/// Longer than any answer in these tests takes.
const PATIENCE: Duration = Duration::from_secs(20);

type CarriedAndReply = (CarriedOrder, oneshot::Sender<OrderAnswer>);

/// Hands each order and the way to answer it to the test.
struct TestCarrier(mpsc::UnboundedSender<CarriedAndReply>);

impl OrderCarrier for TestCarrier {
    fn carry(&self, order: CarriedOrder) -> CarryFuture {
        let (answer, answers) = oneshot::channel();
        self.0.send((order, answer)).expect("the test listens");
        Box::pin(async move { answers.await.unwrap_or_else(|_| refused("dropped")) })
    }
}

fn refused(why: &str) -> OrderAnswer {
    OrderAnswer { code: OrderAnswerCode::Refused, why: why.into() }
}

fn taken() -> OrderAnswer {
    OrderAnswer { code: OrderAnswerCode::Taken, why: String::new() }
}

fn order(number: u8) -> CarriedOrder {
    CarriedOrder { id: [number; 16], not_after_micros: -1, body: vec![number; 300] }
}

/// An agent that carries orders to the test, once its hub has it.
async fn carrying(site: &TestHub) -> (RunningAgent, mpsc::UnboundedReceiver<CarriedAndReply>) {
    let mut agent = TestAgent::join(site, "web1").await.expect("a good token");
    let (orders, carried) = mpsc::unbounded_channel();
    agent.orders = Some(Arc::new(TestCarrier(orders)));
    let runs = agent.run(vec![]);
    wait_for("it connects", || !site.hub().connected().is_empty()).await;
    (runs, carried)
}

#[tokio::test]
async fn an_order_arrives_whole_and_its_answer_returns() {
    let site = TestHub::start().await;
    let (runs, mut carried) = carrying(&site).await;
    for answer in
        [taken(), refused("it is off"), OrderAnswer { code: OrderAnswerCode::Seen, ..taken() }]
    {
        let sent = CarriedOrder { body: vec![7; ORDER_BYTES_MAX], ..order(1) };
        let hub = site.hub();
        let sending = tokio::spawn({
            let sent = sent.clone();
            async move { hub.send_order("web1", sent, PATIENCE).await }
        });
        let (arrived, reply) = carried.recv().await.expect("it arrives");
        assert_eq!(arrived, sent);
        reply.send(answer.clone()).expect("it waits");
        assert_eq!(sending.await.expect("no panic").expect("an answer"), answer);
    }
    runs.end().await;
}

#[tokio::test]
async fn answers_belong_to_their_orders_whatever_their_sequence() {
    let site = TestHub::start().await;
    let (runs, mut carried) = carrying(&site).await;
    let hub = site.hub();
    let sending: Vec<_> = (0..10)
        .map(|number| {
            let hub = Arc::clone(&hub);
            tokio::spawn(async move { hub.send_order("web1", order(number), PATIENCE).await })
        })
        .collect();
    let mut waiting = Vec::new();
    while waiting.len() < 10 {
        waiting.push(carried.recv().await.expect("it arrives"));
    }
    // Rows pass while orders wait.
    runs.write(1, 0..50);
    wait_for("rows arrive", || site.store().numbers(1).len() == 50).await;
    for (order, reply) in waiting.into_iter().rev() {
        reply.send(refused(&order.id[0].to_string())).expect("it waits");
    }
    for (number, sending) in sending.into_iter().enumerate() {
        let answer = sending.await.expect("no panic").expect("an answer");
        assert_eq!(answer.why, number.to_string());
    }
    runs.end().await;
}

#[tokio::test]
async fn an_agent_without_a_carrier_gets_no_order() {
    let site = TestHub::start().await;
    let agent = TestAgent::join(&site, "web1").await.expect("a good token");
    let runs = agent.run(vec![]);
    wait_for("it connects", || !site.hub().connected().is_empty()).await;
    let error = site.hub().send_order("web1", order(1), PATIENCE).await.expect_err("no carrier");
    assert_eq!(error.kind, LinkErrorKind::Protocol);
    assert!(error.to_string().contains("act.socket"), "{error}");
    runs.write(1, 0..5);
    wait_for("it stays connected", || site.store().numbers(1).len() == 5).await;
    runs.end().await;
}

#[tokio::test]
async fn an_agent_elsewhere_and_an_order_over_the_limit_are_errors_at_once() {
    let site = TestHub::start().await;
    let error = site.hub().send_order("web1", order(1), PATIENCE).await.expect_err("nothing there");
    assert_eq!(error.kind, LinkErrorKind::Unreachable);
    let large = CarriedOrder { body: vec![0; ORDER_BYTES_MAX + 1], ..order(1) };
    let error = site.hub().send_order("web1", large, PATIENCE).await.expect_err("too large");
    assert_eq!(error.kind, LinkErrorKind::Protocol);
}

#[tokio::test]
async fn an_order_without_an_answer_is_unknown_and_later_ones_pass() {
    let site = TestHub::start().await;
    let (runs, mut carried) = carrying(&site).await;
    // More than may wait at one time.
    for number in 0..20 {
        let error = site
            .hub()
            .send_order("web1", order(number), Duration::from_millis(1))
            .await
            .expect_err("no answer");
        assert_eq!(error.kind, LinkErrorKind::Silent);
        // Their answers come too late.
        while carried.try_recv().is_ok() {}
    }
    let hub = site.hub();
    let sending = tokio::spawn(async move { hub.send_order("web1", order(99), PATIENCE).await });
    loop {
        let (order, reply) = carried.recv().await.expect("it arrives");
        let _ = reply.send(taken());
        if order.id == [99; 16] {
            break;
        }
    }
    assert_eq!(sending.await.expect("no panic").expect("an answer"), taken());
    runs.end().await;
}

#[tokio::test]
async fn a_cut_connection_makes_an_order_unknown() {
    let site = TestHub::start().await;
    let (runs, mut carried) = carrying(&site).await;
    let hub = site.hub();
    let sending = tokio::spawn(async move { hub.send_order("web1", order(1), PATIENCE).await });
    let (_, _reply) = carried.recv().await.expect("it arrives");
    let agent = runs.kill().await;
    let error = sending.await.expect("no panic").expect_err("no answer");
    assert_eq!(error.kind, LinkErrorKind::Cut);
    // The agent is back, and takes orders.
    let runs = agent.run(vec![]);
    wait_for("it is back", || !site.hub().connected().is_empty()).await;
    let hub = site.hub();
    let sending = tokio::spawn(async move { hub.send_order("web1", order(2), PATIENCE).await });
    let (_, reply) = carried.recv().await.expect("it arrives");
    reply.send(taken()).expect("it waits");
    assert_eq!(sending.await.expect("no panic").expect("an answer"), taken());
    runs.end().await;
}
