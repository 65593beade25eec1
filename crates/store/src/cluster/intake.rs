//! Appends of a hub that is one of several: a stream is taken over before rows of it are taken in.
//!
//! Taking over asks PostgreSQL, so parcels that come meanwhile have to wait behind the first, in their order: of a stream
//! that nobody has seen, the first parcel that is judged says where it begins.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_datafile::{ErrorKind, Snapshot, StoreError};
use weir_tables::{StreamId, StreamRange};

use super::Cluster;
use crate::store::Store;

/// Counts who waits.
struct WaitingGuard<'a>(&'a Cluster);

impl<'a> WaitingGuard<'a> {
    fn new(cluster: &'a Cluster) -> Self {
        cluster.waiting.fetch_add(1, Ordering::Relaxed);
        Self(cluster)
    }
}

impl Drop for WaitingGuard<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Store {
    /// Has streams that some hub knows go through this one, so that [`Store::positions`] says where they stand. Whoever comes
    /// anew has to do it, also for streams that went through this hub before: they may have been elsewhere meanwhile, and
    /// this hub not have learnt it yet.
    ///
    /// # Errors
    /// `Io`: the manifest cannot be reached; `Moved`: this hub had some until a moment ago, ask again soon.
    pub async fn claim(&self, streams: &[StreamId]) -> Result<(), StoreError> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        let streams = streams.iter().map(|stream| (*stream, None)).collect();
        self.take_over(cluster, streams).await
    }

    async fn take_over(
        &self,
        cluster: &Arc<Cluster>,
        streams: Vec<(StreamId, Option<u64>)>,
    ) -> Result<(), StoreError> {
        if streams.is_empty() {
            return Ok(());
        }
        let (cluster, shared) = (Arc::clone(cluster), Arc::clone(&self.shared));
        let claimed = tokio::task::spawn_blocking(move || cluster.claim(&shared, &streams)).await;
        match claimed.map_err(|_| StoreError::closed())?? {
            true => Ok(()),
            false => Err(StoreError::new(
                ErrorKind::Moved,
                "the stream was taken from this hub a moment ago, and is not free of its rows yet",
            )
            .with_hint("ask again in some seconds")),
        }
    }

    /// Runs `append` when rows of the range may be taken in here, behind those that came before.
    pub(crate) async fn in_turn<T>(
        &self,
        range: Option<StreamRange>,
        append: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let (Some(cluster), Some(range)) = (&self.cluster, range) else { return append.await };
        let is_ours = self.shared.positions().owns(range.stream);
        if is_ours && cluster.waiting.load(Ordering::Relaxed) == 0 {
            return append.await;
        }
        let _waiting = WaitingGuard::new(cluster);
        let _turn = cluster.turn.lock().await;
        let is_ours = self.shared.positions().owns(range.stream);
        if !is_ours {
            self.take_over(cluster, vec![(range.stream, Some(range.from))]).await?;
        }
        append.await
    }

    /// Where streams stand in files, whichever hub of the cluster they go through; alone as [`Store::positions`].
    ///
    /// # Errors
    /// `Io`.
    pub async fn positions_of_all(
        &self,
        streams: &[StreamId],
    ) -> Result<Vec<(StreamId, u64)>, StoreError> {
        let own = self.positions(streams);
        let Some(cluster) = self.cluster.clone() else { return Ok(own) };
        let others: Vec<StreamId> = {
            let positions = self.shared.positions();
            streams.iter().copied().filter(|stream| !positions.owns(*stream)).collect()
        };
        let filed = tokio::task::spawn_blocking(move || cluster.filed(&others)).await;
        let filed = filed.map_err(|_| StoreError::closed())??;
        Ok(own.into_iter().chain(filed).collect())
    }

    /// Whether this hub does what one of several does: rules, and what keeps them going. Alone it does.
    pub fn is_leader(&self) -> bool {
        self.cluster.as_ref().is_none_or(|cluster| cluster.is_leader())
    }

    /// The other hubs that are there.
    pub fn peers(&self) -> Vec<super::Peer> {
        self.cluster.as_ref().map(|cluster| cluster.peers()).unwrap_or_default()
    }

    /// Small files that all hubs of a cluster have: name and content. `None` alone.
    ///
    /// # Errors
    /// `Io`.
    pub async fn shared_files(&self) -> Result<Option<Vec<(String, Vec<u8>)>>, StoreError> {
        let Some(cluster) = self.cluster.clone() else { return Ok(None) };
        let files = tokio::task::spawn_blocking(move || cluster.shared_files()).await;
        files.map_err(|_| StoreError::closed())?.map(Some)
    }

    /// Puts such a file there in the place of `before`, `None` for no file; `None` as its content deletes it. Whether it
    /// did: not when there is something else by now.
    ///
    /// # Errors
    /// `Io`.
    pub async fn share_file(
        &self,
        name: String,
        before: Option<Vec<u8>>,
        content: Option<Vec<u8>>,
    ) -> Result<bool, StoreError> {
        let Some(cluster) = self.cluster.clone() else { return Ok(false) };
        let share = move || cluster.share_file(&name, before.as_deref(), content.as_deref());
        tokio::task::spawn_blocking(share).await.map_err(|_| StoreError::closed())?
    }

    /// The view, at a change or later.
    pub(crate) async fn view_at(&self, snapshot: i64) -> Result<Snapshot, StoreError> {
        let view = self.shared.view();
        let Some(cluster) = self.cluster.clone().filter(|_| view.snapshot < snapshot) else {
            return Ok(view);
        };
        let shared = Arc::clone(&self.shared);
        let hurry = tokio::task::spawn_blocking(move || cluster.hurry(&shared)).await;
        hurry.map_err(|_| StoreError::closed())??;
        let view = self.shared.view();
        if view.snapshot < snapshot {
            let text = format!("change {snapshot} of the manifest has not come here yet");
            return Err(StoreError::new(ErrorKind::Moved, text).with_hint("ask again"));
        }
        Ok(view)
    }
}
