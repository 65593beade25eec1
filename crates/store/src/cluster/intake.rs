//! Appends on a hub of a cluster: the hub claims a stream before it accepts rows of it.
//!
//! A claim is a round trip to PostgreSQL. Parcels that arrive meanwhile must wait behind the first
//! one in order: the first admitted parcel of an unknown stream sets its start position.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_datafile::{ErrorKind, Snapshot, StoreError};
use weir_tables::{StreamId, StreamRange};

use super::Cluster;
use crate::store::Store;

/// Counts waiting appends.
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
    /// Claims streams that some hub knows for this hub, so that [`Store::positions`] returns their
    /// positions. A new connection must call this also for streams that used this hub before: they
    /// may have been on another hub meanwhile, and this hub may not know it yet.
    ///
    /// # Errors
    /// `Io`: the manifest cannot be reached; `Moved`: this hub lost some of them just now, retry
    /// soon.
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
                "another hub just took the stream over, and this hub still has rows of it",
            )
            .with_hint("retry in a few seconds")),
        }
    }

    /// Runs `append` once this hub may accept rows of the range, in arrival order.
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

    /// Positions of streams in files, whichever hub of the cluster they use; on a single hub the
    /// same as [`Store::positions`].
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

    /// Whether this hub does the work that only one hub does: rules and their upkeep. Always true
    /// for a single hub.
    pub fn is_leader(&self) -> bool {
        self.cluster.as_ref().is_none_or(|cluster| cluster.is_leader())
    }

    /// Live hubs other than this one.
    pub fn peers(&self) -> Vec<super::Peer> {
        self.cluster.as_ref().map(|cluster| cluster.peers()).unwrap_or_default()
    }

    /// Small files that all hubs of a cluster share: name and content. `None` for a single hub.
    ///
    /// # Errors
    /// `Io`.
    pub async fn shared_files(&self) -> Result<Option<Vec<(String, Vec<u8>)>>, StoreError> {
        let Some(cluster) = self.cluster.clone() else { return Ok(None) };
        let files = tokio::task::spawn_blocking(move || cluster.shared_files()).await;
        files.map_err(|_| StoreError::closed())?.map(Some)
    }

    /// Replaces a shared file by compare-and-set. `before` is the expected content, `None` for a
    /// missing file; a new content of `None` deletes the file. Returns whether the content was as
    /// expected.
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
        tokio::task::spawn_blocking(move || {
            cluster.share_file(&name, before.as_deref(), content.as_deref())
        })
        .await
        .map_err(|_| StoreError::closed())?
    }

    /// The view at this snapshot or a later one.
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
            let text = format!("change {snapshot} of the manifest has not arrived yet");
            return Err(StoreError::new(ErrorKind::Moved, text).with_hint("ask again"));
        }
        Ok(view)
    }
}
