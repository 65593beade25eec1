//! A topic of Kafka: one record per row, acknowledged by all in-sync replicas.
//!
//! The key is the row's host, so rows of one host stay in order and in one partition, the one that
//! Kafka's own clients would choose (murmur2 of the key). Writes without idempotence can duplicate
//! a record when a response is lost; the header `weir-id` is the same for both, so consumers can
//! drop the second.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rskafka::BackoffConfig;
use rskafka::chrono::{DateTime, Utc};
use rskafka::client::error::{Error as KafkaError, ProtocolError};
use rskafka::client::partition::{Compression, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder, Credentials as SaslCredentials, SaslConfig};
use rskafka::record::Record;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use weir_tables::TableSpec;

use crate::batch::{Batch, BatchForm};
use crate::error::{Error, shortened};
use crate::settings::{
    Credentials, NamedSetting, SettingError, SettingSource, TargetAccess, TargetKind, TargetPlan,
    UrlSetting, named, required_url, wrong,
};
use crate::target::{OutputTarget, PendingRows, SendFuture, Target};

pub(crate) const KIND: TargetKind = TargetKind {
    name: "kafka",
    keys: &["topic", "sasl"],
    is_bulk: false,
    read: |source, table| Ok(Arc::new(KafkaPlan::read(source, table)?)),
};

/// Bytes of JSON in one request to a partition, below Kafka's default `message.max.bytes` of 1 MiB.
const REQUEST_BYTES_MAX: usize = 900_000;

/// SASL mechanism of the login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SaslMechanism {
    /// Clear text; use it with TLS only.
    Plain,
    /// Challenge and response with SHA-256.
    ScramSha256,
    /// Challenge and response with SHA-512.
    ScramSha512,
}

impl SaslMechanism {
    fn parse(name: &str) -> Result<Self, SettingError> {
        match name {
            "plain" => Ok(Self::Plain),
            "scram-sha-256" => Ok(Self::ScramSha256),
            "scram-sha-512" => Ok(Self::ScramSha512),
            other => {
                let message = format!("there is no mechanism `{other}`");
                Err(wrong("sasl", message, "known are plain, scram-sha-256, scram-sha-512"))
            }
        }
    }
}

/// A cluster and a topic.
#[derive(Clone, Debug)]
struct KafkaPlan {
    /// `host:port` of the bootstrap brokers.
    brokers: Vec<String>,
    is_tls: bool,
    /// The topic, which must exist.
    topic: String,
    sasl: SaslMechanism,
}

impl KafkaPlan {
    fn read(source: &dyn SettingSource, table: &TableSpec) -> Result<Self, SettingError> {
        let url = required_url(source, "kafka://kafka.example.net:9092")?;
        let (is_tls, list) = match (url.strip_prefix("kafka://"), url.strip_prefix("kafkas://")) {
            (Some(list), _) => (false, list),
            (_, Some(list)) => (true, list),
            _ => {
                return Err(
                    UrlSetting(url).wrong("kafka://kafka.example.net:9092, with TLS kafkas://…")
                );
            }
        };
        let brokers: Vec<String> =
            list.trim_end_matches('/').split(',').map(str::to_owned).collect();
        if !brokers.iter().all(|broker| is_address(broker)) {
            return Err(UrlSetting(url).wrong("kafka://a.example.net:9092,b.example.net:9092"));
        }
        let sasl = SaslMechanism::parse(source.text("sasl").unwrap_or("plain"))?;
        let topic = NamedSetting { key: "topic", default: "weir-{table}" };
        Ok(Self { brokers, is_tls, topic: named(source, topic, table), sasl })
    }
}

/// Whether a broker is `host:port`.
fn is_address(broker: &str) -> bool {
    broker
        .rsplit_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

impl TargetPlan for KafkaPlan {
    fn open(&self, access: TargetAccess) -> Result<OutputTarget, Error> {
        let tls = match (self.is_tls, &access.authority) {
            (false, _) => None,
            (true, Some(pem)) => Some(tls_config(named_roots(pem)?)?),
            (true, None) => Some(tls_config(system_roots()?)?),
        };
        let login = match access.credentials {
            Credentials::Password { user, password } => {
                let login = SaslCredentials::new(user, password);
                Some(match self.sasl {
                    SaslMechanism::Plain => SaslConfig::Plain(login),
                    SaslMechanism::ScramSha256 => SaslConfig::ScramSha256(login),
                    SaslMechanism::ScramSha512 => SaslConfig::ScramSha512(login),
                })
            }
            Credentials::None | Credentials::Token(_) => None,
        };
        let timeout = access.timeout;
        let (plan, partitions) = (self.clone(), Vec::new());
        let target = KafkaTarget { plan, tls, login, timeout, partitions, rows_max: usize::MAX };
        Ok(OutputTarget(Box::new(target)))
    }
}

/// The topic; connects when the first batch is sent.
#[derive(Debug)]
struct KafkaTarget {
    plan: KafkaPlan,
    tls: Option<Arc<ClientConfig>>,
    login: Option<SaslConfig>,
    timeout: Duration,
    partitions: Vec<PartitionClient>,
    /// Rows per request; lowered when the broker reports that a request is too large.
    rows_max: usize,
}

impl Target for KafkaTarget {
    fn form(&self) -> BatchForm {
        BatchForm::Json { has_timestamp: false }
    }

    fn send<'a>(&'a mut self, batch: &'a Batch, pending: &'a mut PendingRows) -> SendFuture<'a> {
        Box::pin(self.connect_and_produce(batch, pending))
    }
}

impl KafkaTarget {
    async fn connect_and_produce(
        &mut self,
        batch: &Batch,
        pending: &mut PendingRows,
    ) -> Result<(), Error> {
        if self.partitions.is_empty() {
            self.partitions = self.connect().await?;
        }
        let outcome = self.produce(batch, pending).await;
        if outcome.is_err() {
            // Leaders may have moved and partitions may have been added: reconnect.
            self.partitions.clear();
        }
        outcome
    }

    async fn connect(&self) -> Result<Vec<PartitionClient>, Error> {
        let brokers = self.plan.brokers.join(",");
        let connect = self.open_partitions(&brokers);
        match tokio::time::timeout(self.timeout, connect).await {
            Ok(outcome) => {
                outcome.map_err(|error| error.context(format!("cannot use Kafka at `{brokers}`")))
            }
            Err(_) => {
                let seconds = self.timeout.as_secs();
                Err(Error::new(format!("no response from Kafka at `{brokers}` within {seconds} s")))
            }
        }
    }

    async fn open_partitions(&self, brokers: &str) -> Result<Vec<PartitionClient>, Error> {
        let name = &self.plan.topic;
        let client = self.client().await?;
        let topics = client.list_topics().await.map_err(kafka_error)?;
        let topic = topics.into_iter().find(|topic| topic.name == *name).ok_or_else(|| {
            Error::new(format!(
                "there is no topic `{name}`; create it: kafka-topics.sh --create --topic {name} \
                 --bootstrap-server {brokers}"
            ))
        })?;
        let mut partitions = Vec::new();
        for number in topic.partitions {
            let partition = client.partition_client(name, number, UnknownTopicHandling::Error);
            partitions.push(partition.await.map_err(kafka_error)?);
        }
        Ok(partitions)
    }

    async fn client(&self) -> Result<Client, Error> {
        let backoff = BackoffConfig {
            max_backoff: Duration::from_secs(1),
            // It retries what can never succeed, such as a wrong login; its own error must come
            // before our timeout.
            deadline: Some(self.timeout / 4),
            ..BackoffConfig::default()
        };
        let brokers = self.plan.brokers.clone();
        let mut builder = ClientBuilder::new(brokers).client_id("weir").backoff_config(backoff);
        if let Some(tls) = &self.tls {
            builder = builder.tls_config(Arc::clone(tls));
        }
        if let Some(login) = &self.login {
            builder = builder.sasl_config(login.clone());
        }
        builder.build().await.map_err(kafka_error)
    }

    async fn produce(&mut self, batch: &Batch, pending: &mut PendingRows) -> Result<(), Error> {
        for number in 0..self.partitions.len() {
            loop {
                let rows = self.part(batch, &pending.rows, number);
                if rows.is_empty() {
                    break;
                }
                let records = rows.iter().map(|row| record(batch, *row)).collect();
                let produce = self.partitions[number].produce(records, Compression::Zstd);
                let Ok(response) = tokio::time::timeout(self.timeout, produce).await else {
                    return Err(Error::new("Kafka did not acknowledge in time"));
                };
                match response {
                    Ok(_) => pending.copied += rows.len() as u64,
                    Err(error) if is_too_large(&error) && rows.len() > 1 => {
                        self.rows_max = rows.len() / 2;
                        continue;
                    }
                    Err(error) if is_too_large(&error) => pending.refuse("too_large"),
                    Err(error) => return Err(kafka_error(error)),
                }
                pending.rows.retain(|row| rows.binary_search(row).is_err());
            }
        }
        Ok(())
    }

    /// The first pending rows of a partition that fit into one request.
    fn part(&self, batch: &Batch, pending: &[usize], partition: usize) -> Vec<usize> {
        let count = self.partitions.len();
        let mut bytes = 0;
        let own = pending.iter().filter(|row| partition_of(batch.host(**row), count) == partition);
        let fitting = own.take_while(|row| {
            let is_first = bytes == 0;
            bytes += batch.json(**row).len() + RECORD_OVERHEAD_BYTES;
            is_first || bytes <= REQUEST_BYTES_MAX
        });
        fitting.take(self.rows_max).copied().collect()
    }
}

/// Key, header and framing of one record.
const RECORD_OVERHEAD_BYTES: usize = 100;

fn record(batch: &Batch, row: usize) -> Record {
    let ts = DateTime::<Utc>::from_timestamp_micros(batch.rows[row].ts.0).unwrap_or_default();
    Record {
        key: Some(batch.host(row).as_bytes().to_vec()),
        value: Some(batch.json(row).to_vec()),
        headers: BTreeMap::from([("weir-id".to_owned(), batch.id(row).into_bytes())]),
        timestamp: ts,
    }
}

/// Authorities of a PEM file.
fn named_roots(pem: &[u8]) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate =
            certificate.map_err(|error| Error::caused_by("`ca_file` is not PEM", error))?;
        // System bundles hold certificates that rustls cannot use.
        let _ = roots.add(certificate);
    }
    if roots.is_empty() {
        return Err(Error::new("`ca_file` has no usable certificate"));
    }
    Ok(roots)
}

/// Authorities that the system trusts.
fn system_roots() -> Result<RootCertStore, Error> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if !roots.is_empty() {
        return Ok(roots);
    }
    let message = "the system has no certificate authorities";
    let error = match found.errors.into_iter().next() {
        Some(error) => Error::caused_by(message, error),
        None => Error::new(message),
    };
    Err(error.with_hint("install `ca-certificates`, or name the brokers' authority: `ca_file`"))
}

fn tls_config(roots: RootCertStore) -> Result<Arc<ClientConfig>, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::caused_by("cannot use TLS", error))?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

fn is_too_large(error: &KafkaError) -> bool {
    let kinds = [ProtocolError::MessageTooLarge, ProtocolError::RecordListTooLarge];
    matches!(error, KafkaError::ServerError { protocol_error, .. } if kinds.contains(protocol_error))
}

/// Adds a hint where the protocol's own message names no remedy.
fn kafka_error(error: KafkaError) -> Error {
    let text = shortened(&error.to_string());
    let is_login = ["SASL", "Sasl", "uthentication"].iter().any(|word| text.contains(word));
    let hint = if is_login {
        "check `user`, `password_file` and `sasl`"
    } else if text.contains("UnknownIssuer") {
        "name the authority that signed the brokers' certificates: `ca_file`"
    } else {
        ""
    };
    Error::new(text).with_hint(hint)
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

    /// Values of Kafka's own `UtilsTest.testMurmur2`.
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
        assert!(named_roots(b"nothing").is_err());
    }
}
