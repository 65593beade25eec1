//! A topic of Kafka: one record per row, acknowledged by all replicas in sync.
//!
//! The key is the row's host, so rows of one host stay in order and in one partition, the one that Kafka's own clients would
//! choose (murmur2 of the key). The protocol's plain writes can double a record when an answer is lost; the header
//! `weir-id` is the same for both, so consumers can drop the second.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rskafka::BackoffConfig;
use rskafka::chrono::{DateTime, Utc};
use rskafka::client::error::{Error, ProtocolError};
use rskafka::client::partition::{Compression, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder, Credentials, SaslConfig};
use rskafka::record::Record;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::batch::Batch;
use crate::target::Pending;

/// How Kafka asks for the password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// As it is; over TLS only, if anybody listens.
    Plain,
    /// Challenge and response with SHA-256.
    ScramSha256,
    /// Challenge and response with SHA-512.
    ScramSha512,
}

/// A cluster and a topic.
#[derive(Clone, Debug)]
pub struct KafkaOptions {
    /// `host:port` of brokers to begin with.
    pub brokers: Vec<String>,
    /// The topic, which has to exist.
    pub topic: String,
    /// Authorities (PEM); with them, the connection is encrypted.
    pub authority: Option<Vec<u8>>,
    /// Mechanism, user and password.
    pub login: Option<(Mechanism, String, String)>,
    /// A request that takes longer has failed.
    pub timeout: Duration,
    /// Bytes of JSON in one request to one partition.
    pub request_bytes: usize,
}

/// The topic, connected to when it is needed.
#[derive(Debug)]
pub struct Kafka {
    options: KafkaOptions,
    tls: Option<Arc<ClientConfig>>,
    partitions: Vec<PartitionClient>,
    rows_max: usize,
}

impl Kafka {
    /// Connects to nobody yet.
    ///
    /// # Errors
    /// The authority is no PEM.
    pub fn new(options: KafkaOptions) -> Result<Self, String> {
        let tls = options.authority.as_deref().map(tls).transpose()?;
        Ok(Self { options, tls, partitions: Vec::new(), rows_max: usize::MAX })
    }

    pub(crate) async fn send(
        &mut self,
        batch: &Batch,
        pending: &mut Pending,
    ) -> Result<(), String> {
        if self.partitions.is_empty() {
            self.partitions = self.connect().await?;
        }
        let outcome = self.produce(batch, pending).await;
        if outcome.is_err() {
            // Leaders may have moved, partitions may have been added: look again.
            self.partitions.clear();
        }
        outcome
    }

    async fn connect(&self) -> Result<Vec<PartitionClient>, String> {
        let options = &self.options;
        let connect = async {
            let client = self.client().await?;
            let topics = client.list_topics().await.map_err(|error| describe(&error))?;
            let topic = topics.into_iter().find(|topic| topic.name == options.topic);
            let topic = topic.ok_or_else(|| {
                format!("there is no topic `{0}`; make it: kafka-topics.sh --create --topic {0} --bootstrap-server {1}", options.topic, options.brokers.join(","))
            })?;
            let mut partitions = Vec::new();
            for number in topic.partitions {
                let partition =
                    client.partition_client(&options.topic, number, UnknownTopicHandling::Error);
                partitions.push(partition.await.map_err(|error| describe(&error))?);
            }
            Ok(partitions)
        };
        let brokers = options.brokers.join(",");
        match tokio::time::timeout(options.timeout, connect).await {
            Ok(outcome) => {
                outcome.map_err(|why: String| format!("cannot use Kafka at `{brokers}`: {why}"))
            }
            Err(_) => Err(format!(
                "no answer from Kafka at `{brokers}` within {} s",
                options.timeout.as_secs()
            )),
        }
    }

    async fn client(&self) -> Result<Client, String> {
        let options = &self.options;
        let backoff = BackoffConfig {
            max_backoff: Duration::from_secs(1),
            // It repeats what can never succeed, such as a wrong login; its own words must come before our time-out.
            deadline: Some(options.timeout / 4),
            ..BackoffConfig::default()
        };
        let mut builder =
            ClientBuilder::new(options.brokers.clone()).client_id("weir").backoff_config(backoff);
        if let Some(tls) = &self.tls {
            builder = builder.tls_config(Arc::clone(tls));
        }
        if let Some((mechanism, user, password)) = &options.login {
            let login = Credentials::new(user.clone(), password.clone());
            builder = builder.sasl_config(match mechanism {
                Mechanism::Plain => SaslConfig::Plain(login),
                Mechanism::ScramSha256 => SaslConfig::ScramSha256(login),
                Mechanism::ScramSha512 => SaslConfig::ScramSha512(login),
            });
        }
        builder.build().await.map_err(|error| describe(&error))
    }

    async fn produce(&mut self, batch: &Batch, pending: &mut Pending) -> Result<(), String> {
        for number in 0..self.partitions.len() {
            loop {
                let docs = self.part(batch, &pending.docs, number);
                if docs.is_empty() {
                    break;
                }
                let records = docs.iter().map(|doc| record(batch, *doc)).collect();
                let produce = self.partitions[number].produce(records, Compression::Zstd);
                let answer = tokio::time::timeout(self.options.timeout, produce).await;
                match answer.map_err(|_| "Kafka did not acknowledge in time".to_owned())? {
                    Ok(_) => pending.copied += docs.len() as u64,
                    Err(error) if is_too_large(&error) && docs.len() > 1 => {
                        self.rows_max = docs.len() / 2;
                        continue;
                    }
                    Err(error) if is_too_large(&error) => pending.refuse("too_large"),
                    Err(error) => return Err(describe(&error)),
                }
                pending.docs.retain(|doc| docs.binary_search(doc).is_err());
            }
        }
        Ok(())
    }

    /// The first pending rows of a partition, as many as fit into one request.
    fn part(&self, batch: &Batch, pending: &[usize], partition: usize) -> Vec<usize> {
        let count = self.partitions.len();
        let mut bytes = 0;
        let own = pending.iter().filter(|doc| partition_of(batch.host(**doc), count) == partition);
        let fitting = own.take_while(|doc| {
            let is_first = bytes == 0;
            bytes += batch.json(**doc).len() + RECORD_OVERHEAD_BYTES;
            is_first || bytes <= self.options.request_bytes
        });
        fitting.take(self.rows_max).copied().collect()
    }
}

/// Key, header and framing of one record.
const RECORD_OVERHEAD_BYTES: usize = 100;

fn record(batch: &Batch, doc: usize) -> Record {
    let ts = DateTime::<Utc>::from_timestamp_micros(batch.docs[doc].ts.0).unwrap_or_default();
    Record {
        key: Some(batch.host(doc).as_bytes().to_vec()),
        value: Some(batch.json(doc).to_vec()),
        headers: BTreeMap::from([("weir-id".to_owned(), batch.id(doc).into_bytes())]),
        timestamp: ts,
    }
}

fn tls(authority: &[u8]) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority) {
        let certificate =
            certificate.map_err(|error| format!("the authority is no PEM: {error}"))?;
        // One that rustls cannot use stands in many systems' bundles.
        let _ = roots.add(certificate);
    }
    if roots.is_empty() {
        return Err("the authority's file has no certificate".into());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| format!("cannot use TLS: {error}"))?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

fn is_too_large(error: &Error) -> bool {
    let kinds = [ProtocolError::MessageTooLarge, ProtocolError::RecordListTooLarge];
    matches!(error, Error::ServerError { protocol_error, .. } if kinds.contains(protocol_error))
}

/// In one line, with what to do where the protocol's own word does not say it.
fn describe(error: &Error) -> String {
    let text = error.to_string();
    let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let hint = if text.contains("SASL") || text.contains("Sasl") || text.contains("uthentication") {
        "; check `user`, `password_file` and `sasl`"
    } else if text.contains("UnknownIssuer") {
        "; name the authority that signed the brokers' certificates: `ca_file`"
    } else {
        ""
    };
    format!("{}{hint}", text.chars().take(300).collect::<String>())
}

/// The partition that Kafka's own clients choose for a key.
fn partition_of(key: &str, count: usize) -> usize {
    (murmur2(key.as_bytes()) & 0x7fff_ffff) as usize % count.max(1)
}

/// MurmurHash2 with Kafka's seed (`org.apache.kafka.common.utils.Utils.murmur2`).
fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
    let mut hash = 0x9747_b28c ^ length;
    let mut chunks = data.chunks_exact(4);
    for chunk in &mut chunks {
        let mut word = u32::from_le_bytes(chunk.try_into().expect("four bytes")).wrapping_mul(M);
        word = (word ^ (word >> 24)).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ word;
    }
    let rest = chunks.remainder();
    if !rest.is_empty() {
        for (at, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * at);
        }
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of Kafka's own `UtilsTest.testMurmur2`.
    #[test]
    fn keys_go_to_the_partitions_that_kafkas_clients_choose() {
        for (key, hash) in [
            ("21", -973_932_308_i32),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
        }
        assert_eq!(partition_of("web1", 1), 0);
    }

    #[test]
    fn an_authority_without_certificates_is_refused() {
        assert!(tls(b"nothing").is_err());
    }
}
