//! Scenarios with rskafka. A line on stdin is an action, its argument, a topic and a group, with tabs between; the
//! answer is a line of JSON. Argument: bootstrap servers.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::time::Duration;

use rskafka::chrono::{DateTime, Utc};
use rskafka::client::partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::{Record, RecordAndOffset};
use serde_json::{Value, json};

type Failure = Box<dyn std::error::Error>;
type Answer = Result<Value, Failure>;

const COUNT: usize = 10;
const WAIT: Duration = Duration::from_secs(20);

fn timestamp(number: usize) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(1_700_000_000_000 + number as i64 * 1000).unwrap()
}

fn record(key: Option<&[u8]>, value: Option<&[u8]>, timestamp: DateTime<Utc>) -> Record {
    Record {
        key: key.map(Vec::from),
        value: value.map(Vec::from),
        headers: BTreeMap::new(),
        timestamp,
    }
}

fn records() -> Vec<Record> {
    (0..COUNT)
        .map(|number| {
            let key = format!("key-{number}");
            let value = format!("value-{number};").repeat(20);
            record(Some(key.as_bytes()), Some(value.as_bytes()), timestamp(number))
        })
        .collect()
}

fn text(bytes: &Option<Vec<u8>>) -> Value {
    bytes.as_ref().map_or(Value::Null, |bytes| json!(String::from_utf8_lossy(bytes)))
}

fn compression(codec: &str) -> Compression {
    match codec {
        "gzip" => Compression::Gzip,
        "snappy" => Compression::Snappy,
        "lz4" => Compression::Lz4,
        "zstd" => Compression::Zstd,
        _ => Compression::NoCompression,
    }
}

async fn partition(client: &Client, topic: &str) -> Result<PartitionClient, Failure> {
    let found = client.partition_client(topic, 0, UnknownTopicHandling::Retry).await?;
    Ok(found)
}

async fn send(client: &Client, topic: &str, records: Vec<Record>, codec: &str) -> Answer {
    partition(client, topic).await?.produce(records, compression(codec)).await?;
    Ok(json!({}))
}

async fn fetch(client: &Client, topic: &str, from: i64, wanted: usize) -> Result<Vec<RecordAndOffset>, Failure> {
    let partition = partition(client, topic).await?;
    let (mut found, mut next) = (Vec::new(), from);
    while found.len() < wanted {
        let (some, _) = partition.fetch_records(next, 1..2_000_000, 500).await?;
        next = some.last().map_or(next, |last| last.offset + 1);
        found.extend(some);
    }
    Ok(found)
}

async fn rows(client: &Client, topic: &str, wanted: usize) -> Answer {
    let found = fetch(client, topic, 0, wanted).await?;
    let rows: Vec<Value> = found
        .iter()
        .map(|each| json!([each.offset, text(&each.record.key), text(&each.record.value)]))
        .collect();
    Ok(json!({ "records": rows }))
}

async fn ends(client: &Client, topic: &str) -> Result<(i64, i64), Failure> {
    let partition = partition(client, topic).await?;
    let first = partition.get_offset(OffsetAt::Earliest).await?;
    Ok((first, partition.get_offset(OffsetAt::Latest).await?))
}

async fn administer(client: &Client, action: &str, topic: &str) -> Option<Answer> {
    Some(match action {
        "list-topics" => async {
            let topics = client.list_topics().await?;
            Ok(json!({ "listed": topics.iter().any(|each| each.name == topic) }))
        }
        .await,
        "describe-topic" => async {
            let topics = client.list_topics().await?;
            let found = topics.iter().find(|each| each.name == topic).ok_or("no topic")?;
            Ok(json!({ "partitions": found.partitions.len() }))
        }
        .await,
        "delete-topic" => async {
            client.controller_client()?.delete_topic(topic, 10_000).await?;
            Ok(json!({}))
        }
        .await,
        "create-topic" => async {
            client.controller_client()?.create_topic(topic, 3, 1, 10_000).await?;
            Ok(json!({}))
        }
        .await,
        "list-offsets" => ends(client, topic).await.map(|(first, last)| json!({ "earliest": first, "latest": last })),
        "delete-records" => async {
            partition(client, topic).await?.delete_records(4, 10_000).await?;
            Ok(json!({ "low": ends(client, topic).await?.0 }))
        }
        .await,
        _ => return None,
    })
}

async fn answer(client: &Client, action: &str, argument: &str, topic: &str) -> Answer {
    if let Some(answer) = administer(client, action, topic).await {
        return answer;
    }
    let (key, value) = (Some("key".as_bytes()), Some("value".as_bytes()));
    let large = |size: usize| vec![b'm'; size];
    let one = |key, value| vec![record(key, value, timestamp(0))];
    match action {
        "produce" => send(client, topic, records(), argument).await,
        "timestamps" => send(client, topic, records(), "none").await,
        "null-key" => send(client, topic, one(None, value), "none").await,
        "null-value" => send(client, topic, one(key, None), "none").await,
        "megabyte" => send(client, topic, one(key, Some(&large(1_000_000))), "none").await,
        "too-large" => send(client, topic, one(key, Some(&large(5000))), "none").await,
        "read" => rows(client, topic, COUNT).await,
        "read-nulls" => rows(client, topic, 2).await,
        "read-timestamps" => {
            let found = fetch(client, topic, 0, COUNT).await?;
            let stamps: Vec<i64> = found.iter().map(|each| each.record.timestamp.timestamp_millis()).collect();
            Ok(json!({ "timestamps": stamps }))
        }
        "read-megabyte" => {
            let found = fetch(client, topic, 0, 1).await?;
            let sizes: Vec<usize> = found.iter().map(|each| each.record.value.as_ref().map_or(0, Vec::len)).collect();
            Ok(json!({ "sizes": sizes }))
        }
        "seek-offset" => {
            let found = fetch(client, topic, 7, 3).await?;
            Ok(json!({ "offsets": found.iter().map(|each| each.offset).collect::<Vec<i64>>() }))
        }
        "seek-end" => ends(client, topic).await.map(|(first, last)| json!({ "ends": [first, last] })),
        "seek-time" => {
            let time = timestamp(4) + Duration::from_millis(1);
            let offset = partition(client, topic).await?.get_offset(OffsetAt::Timestamp(time)).await?;
            Ok(json!({ "offset": offset }))
        }
        _ => Ok(json!({ "unknown": action })),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let bootstrap = std::env::args().nth(1).expect("bootstrap servers");
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("a line");
        let words: Vec<&str> = line.split('\t').collect();
        let answered = tokio::time::timeout(WAIT, async {
            let client = ClientBuilder::new(vec![bootstrap.clone()]).build().await?;
            answer(&client, words[0], words[1], words[2]).await
        });
        let shown = match answered.await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => json!({ "error": format!("{error:?}: {error}") }),
            Err(_) => json!({ "error": "took longer than 20 s" }),
        };
        println!("{shown}");
    }
}
