//! The object store that queries can open: weir's own files, and nothing else.
//!
//! DataFusion's default also opens `file://`, so that one plan from elsewhere could read any file
//! of the host.

use std::sync::Arc;

use datafusion::common::{Result, exec_err};
use datafusion::execution::object_store::ObjectStoreRegistry;
use object_store::ObjectStore;
use parking_lot::RwLock;
use url::Url;

/// Scheme of weir's own files.
const SCHEME: &str = "weir";

/// Registry with one entry.
#[derive(Debug, Default)]
pub(crate) struct OwnFiles(RwLock<Option<Arc<dyn ObjectStore>>>);

impl ObjectStoreRegistry for OwnFiles {
    fn register_store(
        &self,
        url: &Url,
        store: Arc<dyn ObjectStore>,
    ) -> Option<Arc<dyn ObjectStore>> {
        if url.scheme() == SCHEME { self.0.write().replace(store) } else { None }
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        match &*self.0.read() {
            Some(store) if url.scheme() == SCHEME => Ok(Arc::clone(store)),
            _ => exec_err!("cannot open `{url}`: queries read only weir's own files"),
        }
    }
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;

    #[test]
    fn only_own_files_are_opened() {
        let files = OwnFiles::default();
        let own = Url::parse("weir://data").unwrap();
        assert!(files.get_store(&own).is_err());
        files.register_store(&own, Arc::new(InMemory::new()));
        files.get_store(&own).unwrap();
        for other in ["file:///etc/shadow", "http://127.0.0.1/", "s3://bucket/x", "memory:///"] {
            let other = Url::parse(other).unwrap();
            files.register_store(&other, Arc::new(InMemory::new()));
            let error = files.get_store(&other).unwrap_err().to_string();
            assert!(error.contains("only weir's own files"), "{error}");
        }
    }
}
