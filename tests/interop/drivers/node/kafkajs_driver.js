// Scenarios with kafkajs. Argument: bootstrap servers.
const kafkajs = require("kafkajs");
const { COUNT, drive, key, numbers, text, timestampMs, value, within } = require("./driving.js");
const { CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = kafkajs;

const kafka = new Kafka({ brokers: [process.argv[2]], logLevel: logLevel.ERROR });
kafkajs.CompressionCodecs[CompressionTypes.Snappy] = require("kafkajs-snappy");

async function using(client, work) {
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.disconnect();
  }
}

const asAdmin = (work) => using(kafka.admin(), work);
const records = (partition = 0) => numbers.map((n) => ({ partition, key: key(n), value: value(n) }));

async function send(topic, messages, more = {}, settings = {}) {
  await using(kafka.producer(settings), (producer) => producer.send({ topic, messages, ...more }));
}

// Its consumer always has a group, and where it begins is told to it once it runs.
async function consume(topic, group, count, { seek, ...settings } = {}) {
  const consumer = kafka.consumer({ groupId: group, maxWaitTimeInMs: 100, ...settings });
  const found = [];
  await using(consumer, async () => {
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
    const enough = new Promise((resolve) => {
      const eachMessage = async ({ message }) => {
        found.push(message);
        if (found.length >= count) {
          resolve();
        }
      };
      consumer.run({ autoCommit: false, eachMessage }).then(() => seek && consumer.seek({ topic, ...seek }));
    });
    await within(enough, `reading ${count} records`);
  });
  return found;
}

async function consumeAndCommit(topic, group, count, settings = {}) {
  const consumer = kafka.consumer({ groupId: group, maxWaitTimeInMs: 100, ...settings });
  let found = 0;
  await using(consumer, async () => {
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
    const enough = new Promise((resolve) => {
      const eachMessage = async ({ partition, message }) => {
        const offset = String(BigInt(message.offset) + 1n);
        await consumer.commitOffsets([{ topic, partition, offset }]);
        found += 1;
        if (found >= count) {
          resolve();
        }
      };
      consumer.run({ autoCommit: false, eachMessage });
    });
    await within(enough, `reading ${count} records`);
  });
  return { count: found };
}

async function transaction(topic, group, work) {
  const producer = kafka.producer({ transactionalId: group, maxInFlightRequests: 1, idempotent: true });
  await using(producer, async () => work(await producer.transaction()));
}

const row = ({ offset, key, value }) => [Number(offset), text(key), text(value)];

async function share(topic, group) {
  const members = [0, 1].map(() => kafka.consumer({ groupId: group, heartbeatInterval: 500 }));
  const counts = [0, 0];
  const shared = new Promise((resolve) => {
    members.forEach((member, number) =>
      member.on(member.events.GROUP_JOIN, ({ payload }) => {
        counts[number] = (payload.memberAssignment[topic] ?? []).length;
        if (counts[0] === 1 && counts[1] === 1) {
          resolve([1, 1]);
        }
      }),
    );
  });
  try {
    for (const member of members) {
      await member.connect();
      await member.subscribe({ topics: [topic] });
      await member.run({ eachMessage: async () => {} });
    }
    return { assigned: await within(shared, "sharing") };
  } finally {
    await Promise.all(members.map((member) => member.disconnect()));
  }
}

drive({
  "create-topic": (topic) =>
    asAdmin(async (admin) => {
      const configEntries = [{ name: "max.message.bytes", value: "500000" }];
      const created = await admin.createTopics({ topics: [{ topic, numPartitions: 3, configEntries }] });
      if (!created) {
        throw new Error("TOPIC_ALREADY_EXISTS: createTopics returned false");
      }
    }),
  "list-topics": (topic) => asAdmin(async (admin) => ({ listed: (await admin.listTopics()).includes(topic) })),
  "describe-topic": (topic) =>
    asAdmin(async (admin) => {
      const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
      return { partitions: topics[0].partitions.length };
    }),
  "describe-cluster": () =>
    asAdmin(async (admin) => {
      const { brokers } = await admin.describeCluster();
      return { brokers: brokers.map(({ host, port }) => `${host}:${port}`) };
    }),
  "add-partitions": (topic) =>
    asAdmin(async (admin) => {
      await admin.createPartitions({ topicPartitions: [{ topic, count: 4 }] });
    }),
  "describe-configs": (topic) =>
    asAdmin(async (admin) => {
      const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic }];
      const { resources: found } = await admin.describeConfigs({ resources, includeSynonyms: false });
      const entry = found[0].configEntries.find(({ configName }) => configName === "retention.ms");
      return { "retention.ms": entry.configValue };
    }),
  "alter-configs": (topic) =>
    asAdmin(async (admin) => {
      const configEntries = [{ name: "retention.ms", value: "654321" }];
      const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries }];
      await admin.alterConfigs({ validateOnly: false, resources });
    }),
  "list-offsets": (topic) =>
    asAdmin(async (admin) => {
      const [{ low, high }] = await admin.fetchTopicOffsets(topic);
      return { earliest: Number(low), latest: Number(high) };
    }),
  "delete-records": (topic) =>
    asAdmin(async (admin) => {
      // It deletes only from topics whose metadata it has.
      await admin.fetchTopicOffsets(topic);
      await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: "4" }] });
      const [{ low }] = await admin.fetchTopicOffsets(topic);
      return { low: Number(low) };
    }),
  "delete-topic": (topic) =>
    asAdmin(async (admin) => {
      await admin.deleteTopics({ topics: [topic] });
    }),
  "describe-acls": () =>
    asAdmin(async (admin) => {
      const any = { resourceType: 1, resourcePatternType: 1, operation: 1, permissionType: 1 };
      const { resources } = await admin.describeAcls(any);
      return { acls: resources.length };
    }),
  "list-groups": (_topic, group) =>
    asAdmin(async (admin) => {
      const { groups } = await admin.listGroups();
      return { listed: groups.some(({ groupId }) => groupId === group) };
    }),
  "describe-group": (_topic, group) =>
    asAdmin(async (admin) => {
      const { groups } = await admin.describeGroups([group]);
      return { state: groups[0].state.toLowerCase(), members: groups[0].members.length };
    }),
  "list-group-offsets": (topic, groupId) =>
    asAdmin(async (admin) => {
      const [found] = await admin.fetchOffsets({ groupId, topics: [topic] });
      return { offset: Number(found.partitions[0].offset) };
    }),
  "delete-group": (_topic, group) =>
    asAdmin(async (admin) => {
      await admin.deleteGroups([group]);
    }),
  produce: (topic, codec) => {
    const compression = { none: 0, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy }[codec];
    return send(topic, records(), { compression });
  },
  acks: (topic, acks) => send(topic, records(), { acks: Number(acks) }),
  idempotent: (topic) => send(topic, records(), {}, { idempotent: true, maxInFlightRequests: 1 }),
  timestamps: (topic) => send(topic, records().map((each, n) => ({ ...each, timestamp: `${timestampMs(n)}` }))),
  headers: (topic) =>
    send(topic, [{ key: "key", value: "value", headers: { trace: ["1", "2"], empty: "" } }]),
  "null-key": (topic) => send(topic, [{ key: null, value: "value" }]),
  "null-value": (topic) => send(topic, [{ key: "key", value: null }]),
  megabyte: (topic) => send(topic, [{ key: "key", value: Buffer.alloc(1_000_000, "m") }]),
  "too-large": (topic) => send(topic, [{ key: "key", value: Buffer.alloc(5000, "m") }]),
  "auto-create": (topic) => send(topic, [{ key: "key", value: "value" }]),
  read: async (topic, argument) => ({ records: (await consume(topic, `${topic}-${argument}`, COUNT)).map(row) }),
  "read-timestamps": async (topic, group) => {
    const found = await consume(topic, group, COUNT);
    return { timestamps: found.map(({ timestamp }) => Number(timestamp)) };
  },
  "read-headers": async (topic, group) => {
    const [{ headers }] = await consume(topic, group, 1);
    const pairs = Object.entries(headers).map(([name, found]) => [found].flat().map((one) => [name, text(one)]));
    return { headers: pairs.flat() };
  },
  "read-nulls": async (topic, group) => ({ records: (await consume(topic, group, 2)).map(row) }),
  "read-megabyte": async (topic, group) => {
    return { sizes: (await consume(topic, group, 1)).map((each) => each.value.length) };
  },
  "seek-offset": async (topic, group) => {
    const found = await consume(topic, group, 3, { seek: { partition: 0, offset: "7" } });
    return { offsets: found.map(({ offset }) => Number(offset)).slice(-3) };
  },
  "seek-end": (topic) =>
    asAdmin(async (admin) => {
      const [{ low, high }] = await admin.fetchTopicOffsets(topic);
      return { ends: [Number(low), Number(high)] };
    }),
  "seek-time": (topic) =>
    asAdmin(async (admin) => {
      const [{ offset }] = await admin.fetchTopicOffsetsByTimestamp(topic, timestampMs(4) + 1);
      return { offset: Number(offset) };
    }),
  "read-committed": async (topic, group) => {
    return { keys: (await consume(topic, group, 5)).map((each) => text(each.key)) };
  },
  "group-read": (topic, group) => consumeAndCommit(topic, group, COUNT),
  "group-resume": (topic, group) => consumeAndCommit(topic, group, 4),
  "group-share": share,
  commit: (topic, groupId) =>
    asAdmin(async (admin) => {
      await admin.setOffsets({ groupId, topic, partitions: [{ partition: 0, offset: "4" }] });
      const [found] = await admin.fetchOffsets({ groupId, topics: [topic] });
      return { committed: Number(found.partitions[0].offset) };
    }),
  "txn-commit": (topic, group) =>
    transaction(topic, group, async (begun) => {
      await begun.send({ topic, messages: records() });
      await begun.commit();
    }),
  "txn-abort": (topic, group) =>
    transaction(topic, group, async (begun) => {
      await begun.send({ topic, messages: records() });
      await begun.abort();
    }),
  "txn-offsets": (topic, group) =>
    transaction(topic, group, async (begun) => {
      const topics = [{ topic, partitions: [{ partition: 0, offset: "5" }] }];
      await begun.sendOffsets({ consumerGroupId: group, topics });
      await begun.send({ topic, messages: records() });
      await begun.commit();
    }),
  "txn-fence": (topic, group) =>
    transaction(topic, group, async (first) => {
      await transaction(topic, group, async (second) => {
        await second.send({ topic, messages: records() });
        await second.commit();
      });
      await first.send({ topic, messages: records() });
      await first.commit();
    }),
});
