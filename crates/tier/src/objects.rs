//! Access to objects in a bucket that speaks S3.
//!
//! Objects are written atomically, so repeating a write is harmless.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{Certificate, ClientOptions, ObjectStore, ObjectStoreExt, RetryConfig};
use weir_datafile::{ErrorKind, StoreError};
use weir_tables::Micros;

/// Connection settings of a bucket.
#[derive(Clone, Default)]
pub struct BucketOptions {
    /// Bucket name.
    pub bucket: String,
    /// Service URL, such as `http://127.0.0.1:9000`; unset for Amazon S3.
    pub endpoint: Option<String>,
    /// Region; falls back to the environment, then to `us-east-1`.
    pub region: Option<String>,
    /// Access key and secret key; fall back to the environment or the machine's role.
    pub keys: Option<(String, String)>,
    /// Additional CA certificate (PEM), besides those of the system.
    pub authority: Option<Vec<u8>>,
    /// Request timeout.
    pub timeout: Duration,
}

/// Omits the credentials.
impl fmt::Debug for BucketOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BucketOptions").field("bucket", &self.bucket).finish_non_exhaustive()
    }
}

/// An object in a listing.
#[derive(Clone, Debug)]
pub struct StoredObject {
    /// Object name.
    pub name: String,
    /// Object size.
    pub byte_count: u64,
    /// Time of the last write.
    pub modified: Micros,
    /// Entity tag, which changes with the content.
    pub tag: Option<String>,
}

/// Maximum number of idle connections in the pool.
const IDLE: usize = 4;

/// Client of a bucket.
#[derive(Debug)]
pub struct Bucket {
    name: String,
    store: AmazonS3,
}

impl Bucket {
    /// Creates the client; sends no request yet.
    ///
    /// # Errors
    /// `Io`: an option is invalid.
    pub fn new(options: &BucketOptions) -> Result<Self, StoreError> {
        // The caller retries, and reports the errors.
        let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
        Ok(Self { name: options.bucket.clone(), store: client(options, retry, IDLE)? })
    }

    /// Lists objects whose names start with the prefix.
    ///
    /// # Errors
    /// `Io`: the objects cannot be listed.
    pub async fn list(&self, prefix: &str) -> Result<Vec<StoredObject>, StoreError> {
        // The client accepts only directories as prefix; list the directory and filter the rest.
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

    /// Reads an object whole.
    ///
    /// # Errors
    /// `Io`: the object cannot be read.
    pub async fn get(&self, name: &str) -> Result<Bytes, StoreError> {
        let get = async { self.store.get(&Path::parse(name)?).await?.bytes().await };
        get.await.map_err(|error| self.told(&format!("read `{name}` from"), &error))
    }

    fn told(&self, what: &str, error: &object_store::Error) -> StoreError {
        let text = format!("cannot {what} `{}`: {}", self.name, inner(error));
        StoreError::new(ErrorKind::Io, text)
    }

    /// Writes or overwrites an object.
    ///
    /// # Errors
    /// `Io`: the object was not written.
    pub async fn put(&self, name: &str, bytes: Vec<u8>) -> Result<(), StoreError> {
        let put = self.store.put(&Path::from(name), bytes.into()).await;
        put.map(drop).map_err(|error| self.told(&format!("write `{name}` to"), &error))
    }
}

/// Client of a bucket that pools up to `idle` connections.
///
/// # Errors
/// `Io`: an option is invalid.
pub(crate) fn client(
    options: &BucketOptions,
    retry: RetryConfig,
    idle: usize,
) -> Result<AmazonS3, StoreError> {
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
    builder.build().map_err(|error| {
        let text = format!("cannot use the bucket `{}`: {}", options.bucket, inner(&error));
        StoreError::new(ErrorKind::Io, text)
    })
}

/// The service's error in one line, without wrapper errors.
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
