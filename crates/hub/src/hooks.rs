//! What `weir` lends to the agent: the store's client of buckets, and the rules' list of settings
//! that may be tried.

use bytes::Bytes;
use weir_agent_core::hooks::AgentHooks;
use weir_agent_core::watch::{BucketOptions, ObjectReply, ObjectSource};
use weir_collect::logs::Object;
use weir_process::failure::Failure;
use weir_rules::TrialSetting;
use weir_store::Bucket;

/// For every agent that runs in `weir`.
pub const AGENT_HOOKS: AgentHooks = AgentHooks { open_bucket, is_tryable: Some(is_tryable) };

/// Whether `weir tune --try` may set a setting.
pub fn is_tryable(name: &str) -> bool {
    TrialSetting::named(name).is_some()
}

struct StoreBucket(Bucket);

fn open_bucket(options: &BucketOptions) -> Result<Box<dyn ObjectSource>, Failure> {
    let options = options.clone();
    let options = weir_store::BucketOptions {
        bucket: options.bucket,
        endpoint: options.endpoint,
        region: options.region,
        keys: options.keys,
        authority: options.authority,
        timeout: options.timeout,
    };
    let bucket = Bucket::new(&options).map_err(|error| Failure::new(error.message))?;
    Ok(Box::new(StoreBucket(bucket)))
}

impl ObjectSource for StoreBucket {
    fn list<'a>(&'a self, prefix: &'a str) -> ObjectReply<'a, Vec<Object>> {
        Box::pin(async move {
            let found = self.0.list(prefix).await.map_err(|error| error.message)?;
            let objects = found.into_iter().map(|object| Object {
                name: object.name,
                byte_count: object.byte_count,
                modified: object.modified,
                tag: object.tag,
            });
            Ok(objects.collect())
        })
    }

    fn get<'a>(&'a self, name: &'a str) -> ObjectReply<'a, Bytes> {
        Box::pin(async move { self.0.get(name).await.map_err(|error| error.message) })
    }
}
