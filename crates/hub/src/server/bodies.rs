//! Bodies of requests: read whole before the handler runs, counted as their bytes come.
//!
//! The length that a request announces costs nothing; what has arrived counts until the request is
//! answered, for all and for each address, so that neither unfinished nor large bodies can take the
//! memory of the others.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, BodyDataStream, Bytes};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use parking_lot::Mutex;

use super::SharedApp;
use super::answer::Refusal;
use super::caller;

/// Bytes of all bodies of a room, at least.
const ROOM_BYTES: usize = 128 << 20;
/// A room holds this many of its largest bodies.
const LARGEST_BODIES: usize = 4;

/// Room for the bodies of some routes.
pub(super) struct BodyRoom {
    body_bytes: usize,
    /// The setting that allows larger bodies; empty if there is none.
    setting: &'static str,
    room_bytes: usize,
    usage: Mutex<RoomUsage>,
}

#[derive(Default)]
struct RoomUsage {
    total: usize,
    by_address: HashMap<IpAddr, usize>,
}

impl BodyRoom {
    /// Room for bodies of up to `body_bytes`, which `setting` changes.
    pub(super) fn new(body_bytes: usize, setting: &'static str) -> Arc<Self> {
        let room_bytes = ROOM_BYTES.max(body_bytes.saturating_mul(LARGEST_BODIES));
        Arc::new(Self { body_bytes, setting, room_bytes, usage: Mutex::default() })
    }

    /// The routes, with their bodies in this room.
    pub(super) fn around(self: Arc<Self>, routes: Router<SharedApp>) -> Router<SharedApp> {
        routes.layer(from_fn_with_state(self, read)).layer(DefaultBodyLimit::disable())
    }

    /// Takes room unless that exceeds the room, or the half of it that one address may have.
    fn take(&self, address: IpAddr, bytes: usize) -> bool {
        let mut usage = self.usage.lock();
        let own = usage.by_address.get(&address).copied().unwrap_or(0) + bytes;
        if own > self.room_bytes / 2 || usage.total + bytes > self.room_bytes {
            return false;
        }
        usage.total += bytes;
        usage.by_address.insert(address, own);
        true
    }

    fn give_back(&self, address: IpAddr, bytes: usize) {
        let mut usage = self.usage.lock();
        usage.total = usage.total.saturating_sub(bytes);
        let rest = usage.by_address.get(&address).map_or(0, |own| own.saturating_sub(bytes));
        if rest == 0 {
            usage.by_address.remove(&address);
        } else {
            usage.by_address.insert(address, rest);
        }
    }
}

/// Room that a body takes until its request is answered.
struct BodyShare {
    room: Arc<BodyRoom>,
    address: IpAddr,
    bytes: usize,
}

impl BodyShare {
    /// Reads the body to its end.
    async fn read(&mut self, mut body: BodyDataStream) -> Result<Bytes, Refusal> {
        let mut whole = Vec::new();
        while let Some(part) = body.next().await {
            let part = part.map_err(|error| {
                let why = format!("cannot read the body: {error}");
                Refusal::new(StatusCode::BAD_REQUEST, why)
            })?;
            if whole.len() + part.len() > self.room.body_bytes {
                return Err(self.too_large());
            }
            if !self.room.take(self.address, part.len()) {
                let why = "cannot read the body: other bodies take all memory for them";
                return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why).hint("try again"));
            }
            self.bytes += part.len();
            whole.extend_from_slice(&part);
        }
        Ok(whole.into())
    }

    fn too_large(&self) -> Refusal {
        let why = format!("the body exceeds {} bytes", self.room.body_bytes);
        let refusal = Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, why);
        match self.room.setting {
            "" => refusal,
            setting => refusal.hint(format!("send less at once, or raise `{setting}`")),
        }
    }
}

impl Drop for BodyShare {
    fn drop(&mut self) {
        self.room.give_back(self.address, self.bytes);
    }
}

/// Runs before the handlers of a room's routes.
async fn read(State(room): State<Arc<BodyRoom>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let mut share = BodyShare { room, address: caller::address(), bytes: 0 };
    match share.read(body.into_data_stream()).await {
        Ok(body) => next.run(Request::from_parts(parts, Body::from(body))).await,
        Err(refusal) => refusal.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const TWO: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    async fn body_of(room: &Arc<BodyRoom>, address: IpAddr, parts: usize) -> (BodyShare, bool) {
        let mut share = BodyShare { room: Arc::clone(room), address, bytes: 0 };
        let part = Bytes::from(vec![0; 1 << 20]);
        let parts = (0..parts).map(move |_| Ok::<_, std::io::Error>(part.clone()));
        let body = Body::from_stream(futures::stream::iter(parts));
        let is_read = share.read(body.into_data_stream()).await.is_ok();
        (share, is_read)
    }

    #[tokio::test]
    async fn bodies_are_bounded_alone_by_address_and_together() {
        let room = BodyRoom::new(32 << 20, "");
        assert_eq!(room.room_bytes, 128 << 20);
        assert!(!body_of(&room, ONE, 33).await.1, "one body");
        let first = [body_of(&room, ONE, 32).await, body_of(&room, ONE, 32).await];
        assert!(first.iter().all(|(_, is_read)| *is_read));
        assert!(!body_of(&room, ONE, 1).await.1, "more of one address");
        let second = [body_of(&room, TWO, 32).await, body_of(&room, TWO, 32).await];
        assert!(second.iter().all(|(_, is_read)| *is_read), "another address has its half");
        let third = IpAddr::from([10, 0, 0, 3]);
        assert!(!body_of(&room, third, 1).await.1, "more of all");
        drop((first, second));
        assert!(body_of(&room, third, 32).await.1);
        assert_eq!(room.usage.lock().total, 0);
        assert!(room.usage.lock().by_address.is_empty());
    }
}
