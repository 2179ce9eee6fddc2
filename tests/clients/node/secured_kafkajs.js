// Produces values to topics with kafkajs and reads them as a member of a group, over each way into a broker.
//
// Arguments and lines are as those of go/secured_franz.
const { Kafka, logLevel } = require("kafkajs");
const { readFileSync } = require("fs");

const count = Number(process.argv[2]);

function settings([, bootstrap, mechanism, user, secret, authority, certificate]) {
  const own = certificate ? readFileSync(certificate, "ascii") : undefined;
  const oauthBearerProvider = async () => ({ value: secret });
  const login = mechanism === "OAUTHBEARER" ? { oauthBearerProvider } : { username: user, password: secret };
  return {
    brokers: [bootstrap],
    logLevel: logLevel.NOTHING,
    sasl: mechanism ? { mechanism: mechanism.toLowerCase(), ...login } : undefined,
    ssl: authority ? { ca: readFileSync(authority, "ascii"), key: own, cert: own } : undefined,
  };
}

async function roundTrip(words) {
  const [topic] = words;
  const kafka = new Kafka(settings(words));
  const admin = kafka.admin();
  await admin.connect();
  await admin.createTopics({ topics: [{ topic, numPartitions: 1 }] });
  await admin.disconnect();
  const producer = kafka.producer();
  await producer.connect();
  const messages = Array.from({ length: count }, (_, number) => ({ value: `value ${number}` }));
  await producer.send({ topic, messages });
  await producer.disconnect();
  const consumer = kafka.consumer({ groupId: topic, maxWaitTimeInMs: 100 });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  const read = [];
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
    const eachMessage = async ({ message }) => {
      if (read.push(message.value.toString()) === count) resolve();
    };
    consumer.run({ eachMessage }).catch(reject);
  });
  await consumer.disconnect();
  return read;
}

async function outcome(words) {
  try {
    for (const value of await roundTrip(words)) console.log(`${words[0]}\tread\t${value}`);
  } catch (error) {
    console.log(`${words[0]}\terror\t${error}`);
  }
}

const lines = readFileSync(0, "utf8").split("\n").filter((line) => line !== "");
Promise.all(lines.map((line) => outcome(line.split("\t")))).then(() => process.exit(0));
