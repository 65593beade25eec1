//! Files for others: objects in a bucket that speaks S3.
//!
//! An object is written whole or not at all, so writing the same name again is harmless.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{Certificate, ClientOptions, ObjectStore, ObjectStoreExt, RetryConfig};
use weir_datafile::{ErrorKind, StoreError};
use weir_tables::Micros;

/// How a bucket is reached.
#[derive(Clone, Default)]
pub struct BucketOptions {
    /// The bucket's name.
    pub bucket: String,
    /// Where the service is, when it is not Amazon's: `http://127.0.0.1:9000`.
    pub endpoint: Option<String>,
    /// The region; `us-east-1` when it is not set and the environment says nothing.
    pub region: Option<String>,
    /// Access key and secret key; without them, what the environment or the machine's role gives.
    pub keys: Option<(String, String)>,
    /// An authority (PEM) beside those of the system.
    pub authority: Option<Vec<u8>>,
    /// A request that takes longer has failed.
    pub timeout: Duration,
}

/// Without the keys.
impl fmt::Debug for BucketOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BucketOptions").field("bucket", &self.bucket).finish_non_exhaustive()
    }
}

/// An object of a listing.
#[derive(Clone, Debug)]
pub struct StoredObject {
    /// Its name in the bucket.
    pub name: String,
    /// Its length.
    pub byte_count: u64,
    /// When it was written.
    pub modified: Micros,
    /// What the service says of its content, another one for another content.
    pub tag: Option<String>,
}

/// Connections that are kept for the next object.
const IDLE: usize = 4;

/// A bucket.
#[derive(Debug)]
pub struct Bucket {
    name: String,
    store: AmazonS3,
}

impl Bucket {
    /// Asks nothing of the service yet.
    ///
    /// # Errors
    /// `Io`: what is wrong with the options.
    pub fn new(options: &BucketOptions) -> Result<Self, StoreError> {
        // Who calls tries again, and shows why.
        let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
        Ok(Self { name: options.bucket.clone(), store: client(options, retry, IDLE)? })
    }

    /// Objects whose name begins with the prefix.
    ///
    /// # Errors
    /// `Io`: why they could not be listed.
    pub async fn list(&self, prefix: &str) -> Result<Vec<StoredObject>, StoreError> {
        // What the client calls a prefix is a directory; one that ends within a name is looked for in its directory.
        let (directory, _) = prefix.rsplit_once('/').unwrap_or_default();
        let found = self.store.list(Some(&Path::from(directory))).try_collect::<Vec<_>>().await;
        let found = found.map_err(|error| self.told(&format!("list `{prefix}` in"), &error))?;
        let found = found.into_iter().map(|object| StoredObject {
            name: object.location.to_string(),
            byte_count: object.size,
            modified: Micros(object.last_modified.timestamp_micros()),
            tag: object.e_tag,
        });
        Ok(found.filter(|object| object.name.starts_with(prefix)).collect())
    }

    /// A whole object.
    ///
    /// # Errors
    /// `Io`: why it could not be read.
    pub async fn get(&self, name: &str) -> Result<Bytes, StoreError> {
        let get = async { self.store.get(&Path::parse(name)?).await?.bytes().await };
        get.await.map_err(|error| self.told(&format!("read `{name}` from"), &error))
    }

    fn told(&self, what: &str, error: &object_store::Error) -> StoreError {
        let text = format!("cannot {what} `{}`: {}", self.name, inner(error));
        StoreError::new(ErrorKind::Io, text)
    }

    /// Writes an object, or writes it again.
    ///
    /// # Errors
    /// `Io`: why it was not written.
    pub async fn put(&self, name: &str, bytes: Vec<u8>) -> Result<(), StoreError> {
        let put = self.store.put(&Path::from(name), bytes.into()).await;
        put.map(drop).map_err(|error| self.told(&format!("write `{name}` to"), &error))
    }
}

/// A client of a bucket that keeps up to `idle` connections for further requests.
///
/// # Errors
/// `Io`: what is wrong with the options.
pub(crate) fn client(
    options: &BucketOptions,
    retry: RetryConfig,
    idle: usize,
) -> Result<AmazonS3, StoreError> {
    let fail = |error: object_store::Error| {
        let text = format!("cannot use the bucket `{}`: {}", options.bucket, inner(&error));
        StoreError::new(ErrorKind::Io, text)
    };
    let is_plain = options.endpoint.as_ref().is_some_and(|url| url.starts_with("http://"));
    let mut client = ClientOptions::new()
        .with_timeout(options.timeout)
        .with_connect_timeout(options.timeout.min(Duration::from_secs(5)))
        .with_pool_max_idle_per_host(idle)
        .with_allow_http(is_plain);
    for authority in options.authority.iter().flat_map(|pem| Certificate::from_pem_bundle(pem)) {
        for certificate in authority {
            client = client.with_root_certificate(certificate);
        }
    }
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name(&options.bucket)
        .with_client_options(client)
        .with_retry(retry);
    if let Some(endpoint) = &options.endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    if let Some(region) = &options.region {
        builder = builder.with_region(region);
    }
    if let Some((access, secret)) = &options.keys {
        builder = builder.with_access_key_id(access).with_secret_access_key(secret);
    }
    builder.build().map_err(fail)
}

/// What the service said, without the layers around it, in one line.
pub(crate) fn inner(error: &object_store::Error) -> String {
    let mut deepest: &dyn std::error::Error = error;
    while let Some(cause) = deepest.source() {
        deepest = cause;
    }
    let whole = error.to_string();
    let deep = deepest.to_string();
    let text = if whole.contains(&deep) { whole } else { format!("{whole}: {deep}") };
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(400).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_service_that_is_not_there_is_told_in_one_line() {
        let options = BucketOptions {
            bucket: "rows".into(),
            endpoint: Some("http://127.0.0.1:1".into()),
            keys: Some(("key".into(), "secret-word".into())),
            timeout: Duration::from_secs(5),
            ..BucketOptions::default()
        };
        let bucket = Bucket::new(&options).unwrap();
        let error = bucket.put("a/b", vec![1]).await.unwrap_err().message;
        assert!(error.starts_with("cannot write `a/b` to `rows`: "), "{error}");
        assert!(error.contains("onnection refused") && !error.contains("secret-word"), "{error}");
    }
}
