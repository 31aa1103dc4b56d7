//! Targets in Kafka: a topic. The bucket and the key choose the partition, so that the events of
//! one key stay in order.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::select_ok;
use parking_lot::Mutex;
use rskafka::BackoffConfig;
use rskafka::chrono::{DateTime, Utc};
use rskafka::client::partition::{Compression, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder, Credentials, SaslConfig};
use rskafka::record::Record;
use rustls::ClientConfig;

use super::message::Message;
use super::server::{self, why};
use super::stream;
use crate::config::{self, Sasl};

/// The largest message of a broker, in bytes. The list of all topics is the largest one; a topic
/// with 1000 partitions takes about 50 KiB of it.
const MOST_MESSAGE_BYTES: usize = 16 << 20;

/// A Kafka cluster.
pub struct Server {
    settings: config::Kafka,
    tls: Option<Arc<ClientConfig>>,
}

impl Server {
    /// Returns the cluster that the settings describe.
    ///
    /// # Errors
    /// A text for the operator.
    pub fn new(settings: &config::Kafka) -> Result<Server, String> {
        Ok(Server {
            tls: settings.tls.as_ref().map(stream::tls).transpose()?,
            settings: settings.clone(),
        })
    }

    /// Returns the broker that takes a connection first. The library would try one after another,
    /// and wait for one that does not answer until the time of the delivery is over.
    async fn first_broker(&self) -> Result<String, String> {
        let tries = self.settings.brokers.iter().map(|broker| {
            let connects = async move { stream::plain(broker).await.map(|_| broker.to_string()) };
            connects.boxed()
        });
        Ok(select_ok(tries).await?.0)
    }

    fn builder(&self, broker: String) -> ClientBuilder {
        let mut builder = ClientBuilder::new(vec![broker])
            .client_id("archipel")
            .max_message_size(MOST_MESSAGE_BYTES)
            // The library tries again by itself, for as long as this says. It must end before the
            // time of a delivery, because only then does it tell why it failed.
            .backoff_config(BackoffConfig {
                init_backoff: Duration::from_millis(100),
                max_backoff: Duration::from_secs(1),
                base: 2.0,
                deadline: Some(Duration::from_secs(3)),
            });
        if let Some(tls) = &self.tls {
            builder = builder.tls_config(tls.clone());
        }
        if let Some(login) = &self.settings.login {
            let password = login.password.expose().to_owned();
            let credentials = Credentials::new(login.user.clone(), password);
            builder = builder.sasl_config(match self.settings.sasl {
                Sasl::Plain => SaslConfig::Plain(credentials),
                Sasl::ScramSha256 => SaslConfig::ScramSha256(credentials),
                Sasl::ScramSha512 => SaslConfig::ScramSha512(credentials),
            });
        }
        builder
    }
}

/// The connections to the brokers, and the partitions of the topic.
pub struct Connection {
    client: Client,
    partitions: Vec<i32>,
    used: Mutex<HashMap<i32, Arc<PartitionClient>>>,
}

impl Connection {
    /// Returns the partition for messages of this name.
    async fn partition(&self, topic: &str, name: &str) -> Result<Arc<PartitionClient>, String> {
        let chosen = chosen(name.as_bytes(), self.partitions.len());
        let partition = self.partitions.get(chosen).copied();
        let partition = partition.ok_or("the topic has no partitions")?;
        if let Some(used) = self.used.lock().get(&partition) {
            return Ok(used.clone());
        }
        let unknown = UnknownTopicHandling::Error;
        let made = self
            .client
            .partition_client(topic, partition, unknown)
            .await;
        let made = Arc::new(made.map_err(|error| why(&error))?);
        self.used.lock().insert(partition, made.clone());
        Ok(made)
    }
}

#[async_trait]
impl server::Server for Server {
    type Connection = Connection;

    async fn connect(&self) -> Result<Connection, String> {
        let broker = self.first_broker().await?;
        let client = self.builder(broker).build().await;
        let client = client.map_err(|error| why(&error))?;
        let topics = client.list_topics().await.map_err(|error| why(&error))?;
        let topic = self.settings.topic.as_str();
        let found = topics.into_iter().find(|one| one.name == topic);
        let found = found.ok_or_else(|| {
            format!("there is no topic {topic:?}, or the user may not write to it")
        })?;
        Ok(Connection {
            client,
            partitions: found.partitions.into_iter().collect(),
            used: Mutex::default(),
        })
    }

    async fn send(&self, connection: &Connection, message: &Message) -> Result<(), String> {
        let partition = connection
            .partition(&self.settings.topic, &message.name)
            .await?;
        let time_ms = i64::try_from(message.time_ms).unwrap_or_default();
        let record = Record {
            key: Some(message.name.clone().into_bytes()),
            value: Some(message.text.clone().into_bytes()),
            headers: BTreeMap::new(),
            timestamp: DateTime::<Utc>::from_timestamp_millis(time_ms).unwrap_or_default(),
        };
        // It waits until all replicas that are in sync have the record.
        let stored = partition
            .produce(vec![record], Compression::NoCompression)
            .await;
        stored.map(|_| ()).map_err(|error| why(&error))
    }
}

/// Returns the number of the partition for a key: the one that Kafka's own clients choose.
fn chosen(key: &[u8], partitions: usize) -> usize {
    let positive = murmur2(key) & 0x7fff_ffff;
    usize::try_from(positive).unwrap_or_default() % partitions.max(1)
}

/// Returns Kafka's hash of a key: MurmurHash2 with 32 bits.
fn murmur2(key: &[u8]) -> u32 {
    const MULTIPLIER: u32 = 0x5bd1_e995;
    const SEED: u32 = 0x9747_b28c;
    let length = u32::try_from(key.len()).unwrap_or(u32::MAX);
    let (words, rest) = key.as_chunks::<4>();
    let mut hash = SEED ^ length;
    for word in words {
        let mut word = u32::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        word ^= word >> 24;
        hash = hash.wrapping_mul(MULTIPLIER) ^ word.wrapping_mul(MULTIPLIER);
    }
    if !rest.is_empty() {
        let mut word = [0; 4];
        word[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u32::from_le_bytes(word)).wrapping_mul(MULTIPLIER);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(MULTIPLIER);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_is_that_of_kafka() {
        // Source: Apache Kafka, UtilsTest.testMurmur2.
        for (key, expected) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            (
                "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
                -58_897_971,
            ),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), expected, "{key}");
        }
    }

    #[test]
    fn keys_have_one_partition_each_and_use_all() {
        let mut used = [0; 6];
        for number in 0..600 {
            let key = format!("bucket/key-{number}");
            let one = chosen(key.as_bytes(), used.len());
            assert_eq!(one, chosen(key.as_bytes(), used.len()));
            used[one] += 1;
        }
        assert!(used.iter().all(|count| *count > 50), "{used:?}");
        assert_eq!(chosen(b"x", 1), 0);
    }
}
