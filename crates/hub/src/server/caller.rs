//! The caller of a request, and how many queries each caller may run at a time.
//!
//! The name is that of a personal login. Without one it is HTTP Basic's user, else the peer's address,
//! and no proof of anything: it says in `slow_query` who asked, and keeps one asker from taking every
//! turn.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

tokio::task_local! {
    /// Address of the connection that a task serves.
    pub(super) static PEER: IpAddr;
    /// The caller of the request that a task answers.
    static CALLER: RequestCaller;
}

#[derive(Clone)]
struct RequestCaller {
    name: Arc<str>,
    /// Whether the login proves the name.
    is_owner: bool,
}

/// Names longer than this are cut.
const NAME_CHARS_MAX: usize = 64;
/// Callers without a running query are forgotten above this many.
const KNOWN_MAX: usize = 1000;

/// Answers a request in the name of `user`, or of the address it came from.
pub(super) async fn as_caller<T>(user: Option<&str>, answer: impl Future<Output = T>) -> T {
    let name = user.map(str::to_owned).filter(|name| !name.is_empty()).unwrap_or_else(|| {
        PEER.try_with(|peer| peer.to_canonical().to_string()).unwrap_or_default()
    });
    let name: String = name.chars().take(NAME_CHARS_MAX).collect();
    CALLER.scope(RequestCaller { name: name.into(), is_owner: false }, answer).await
}

/// Answers a request of a personal login's owner.
pub(super) async fn as_owner<T>(login: &str, answer: impl Future<Output = T>) -> T {
    CALLER.scope(RequestCaller { name: login.into(), is_owner: true }, answer).await
}

/// The address of the connection that this task serves; unspecified outside of one.
pub(super) fn address() -> IpAddr {
    PEER.try_with(IpAddr::to_canonical).unwrap_or(Ipv4Addr::UNSPECIFIED.into())
}

/// The caller of the request that this task answers; empty outside of a request.
pub(super) fn caller() -> Arc<str> {
    CALLER.try_with(|caller| Arc::clone(&caller.name)).unwrap_or_else(|_| "".into())
}

/// Who does what a request asks: the owner of a personal login, whomever the request names; else that
/// person, else the caller.
pub(super) fn author(named: Option<String>) -> String {
    let is_owner = CALLER.try_with(|caller| caller.is_owner).unwrap_or_default();
    named.filter(|_| !is_owner).unwrap_or_else(|| caller().to_string())
}

/// Turns of each caller.
pub(crate) struct Callers {
    each: usize,
    turns: Mutex<HashMap<Arc<str>, Arc<Semaphore>>>,
}

impl Callers {
    /// At most `each` queries of each caller at a time.
    pub(crate) fn new(each: usize) -> Self {
        Self { each, turns: Mutex::default() }
    }

    /// Waits until this caller may run one more.
    pub(super) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        let turns = {
            let mut known = self.turns.lock();
            if known.len() > KNOWN_MAX {
                known.retain(|_, turns| Arc::strong_count(turns) > 1);
            }
            let turns =
                known.entry(caller()).or_insert_with(|| Arc::new(Semaphore::new(self.each)));
            Arc::clone(turns)
        };
        turns.acquire_owned().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_caller_waits_for_its_own_turns_only() {
        let callers = Callers::new(1);
        let mine = as_caller(Some("me"), callers.turn()).await;
        let mut second = Box::pin(as_caller(Some("me"), callers.turn()));
        assert!(futures::poll!(&mut second).is_pending());
        let other = PEER.scope([10, 0, 0, 7].into(), as_caller(None, callers.turn()));
        assert!(other.await.is_some());
        drop(mine);
        assert!(second.await.is_some());
        let name = PEER.scope([10, 0, 0, 7].into(), as_caller(Some(""), async { caller() }));
        assert_eq!(&*name.await, "10.0.0.7");
    }

    /// As in grafana/grafana#56161: the author of a silence is free text without a login only.
    #[tokio::test]
    async fn owner_of_a_login_acts_under_no_other_name() {
        let named = || Some("bob".to_owned());
        let both = |named| async move { (caller(), author(named)) };
        assert_eq!(as_owner("alice", both(named())).await, ("alice".into(), "alice".into()));
        assert_eq!(as_caller(Some("me"), both(named())).await, ("me".into(), "bob".into()));
        assert_eq!(as_caller(Some("me"), both(None)).await, ("me".into(), "me".into()));
        assert_eq!(author(named()), "bob");
    }
}
