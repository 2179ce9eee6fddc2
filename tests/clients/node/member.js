// A member of a group with kafkajs. It takes bootstrap servers, topic, group and key=value settings (Kafka's names)
// and speaks as the members in Python do.
const { Kafka, logLevel } = require("kafkajs");
const readline = require("readline");

const [bootstrap, topic, groupId, ...words] = process.argv.slice(2);
const NAMES = { "session.timeout.ms": "sessionTimeout", "heartbeat.interval.ms": "heartbeatInterval" };

const tell = (what) => process.stdout.write(`${process.hrtime.bigint()} ${what}\n`);

async function main() {
  const settings = {};
  for (const word of words) {
    const [key, value] = word.split("=");
    settings[NAMES[key]] = Number(value);
  }
  const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING, retry: { maxRetryTime: 1000 } });
  // It beats between two fetches.
  const maxWaitTimeInMs = settings.heartbeatInterval || 5000;
  const consumer = kafka.consumer({ groupId, maxWaitTimeInMs, ...settings });
  const positions = new Map();
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    const owned = payload.memberAssignment[topic] || [];
    // What others own now is theirs to commit: an old position would set them back.
    for (const partition of positions.keys()) if (!owned.includes(partition)) positions.delete(partition);
    tell(`owns ${owned.join(",")}`);
  });
  consumer.on(consumer.events.REBALANCING, () => tell("owns "));
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({
    eachMessage: async ({ partition, message }) => {
      positions.set(partition, String(BigInt(message.offset) + 1n));
      tell(`read ${partition} ${message.offset}`);
    },
  });
  for await (const line of readline.createInterface({ input: process.stdin })) {
    if (line === "leave") break;
    if (line === "commit") {
      await consumer.commitOffsets([...positions].map(([partition, offset]) => ({ topic, partition, offset })));
      tell("committed");
    }
  }
  await consumer.disconnect();
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
