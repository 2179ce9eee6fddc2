// Produces the records on its input to partition 0 of a topic with kafkajs and asks the admin client about it.
//
// Arguments: bootstrap servers, topic. A line is a record as RoundTrip.java takes it, without headers.
const { CompressionTypes, Kafka, logLevel } = require("kafkajs");
const { readFileSync } = require("fs");

const [bootstrap, topic] = process.argv.slice(2);
const bytes = (text) => (text === "null" ? null : Buffer.from(text, "hex"));

async function main() {
  const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.ERROR });
  const admin = kafka.admin();
  await admin.connect();
  await admin.createTopics({ topics: [{ topic, numPartitions: 2, replicationFactor: 1 }] });
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  const lines = readFileSync(0, "ascii").split("\n").filter((line) => line !== "");
  const messages = lines.map((line) => {
    const [timestamp, key, value] = line.split(" ");
    return { partition: 0, timestamp, key: bytes(key), value: bytes(value) };
  });
  const half = messages.length / 2;
  const first = await producer.send({ topic, messages: messages.slice(0, half) });
  const compression = CompressionTypes.GZIP;
  const second = await producer.send({ topic, compression, messages: messages.slice(half) });
  console.log([first, second].map((sent) => sent[0].baseOffset).join(" "));
  const offsets = await admin.fetchTopicOffsets(topic);
  console.log(offsets.map(({ partition, low, high }) => `${partition}:${low}-${high}`).sort().join(" "));
  console.log((await admin.listTopics()).includes(topic));
  await producer.disconnect();
  await admin.disconnect();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
