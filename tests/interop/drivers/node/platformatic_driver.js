// Scenarios with @platformatic/kafka. Argument: bootstrap servers.
const { Admin, Consumer, Producer } = require("@platformatic/kafka");
const { COUNT, drive, key, numbers, text, timestampMs, value, within } = require("./driving.js");

const TOPIC_RESOURCE = 2;
const common = { clientId: "interop", bootstrapBrokers: [process.argv[2]], retries: 5, retryDelay: 200 };

async function using(client, work) {
  try {
    return await work(client);
  } finally {
    // Only a consumer can be closed by force: its streams may still be open.
    await (client instanceof Consumer ? client.close(true) : client.close());
  }
}

const asAdmin = (work) => using(new Admin(common), work);
const asConsumer = (groupId, work, more = {}) =>
  using(new Consumer({ ...common, groupId, autocommit: false, maxWaitTime: 100, ...more }), work);

const records = (topic) => numbers.map((n) => ({ topic, partition: 0, key: key(n), value: value(n) }));

async function send(messages, more = {}, settings = {}) {
  const options = { ...common, autocreateTopics: true, ...settings };
  await using(new Producer(options), (producer) => producer.send({ messages, ...more }));
}

async function take(stream, count, each = () => {}) {
  const found = [];
  const reading = (async () => {
    for await (const message of stream) {
      found.push(message);
      await each(message);
      if (found.length >= count) {
        break;
      }
    }
  })();
  await within(reading, `reading ${count} records`);
  await stream.close();
  return found;
}

const consume = (topic, group, count, options = { mode: "earliest" }) =>
  asConsumer(group, async (consumer) => take(await consumer.consume({ topics: [topic], ...options }), count));

const consumeAndCommit = (topic, group, count, more = {}) =>
  asConsumer(
    group,
    async (consumer) => {
      const stream = await consumer.consume({ topics: [topic], mode: "committed", fallbackMode: "earliest" });
      return { count: (await take(stream, count, (message) => message.commit())).length };
    },
    more,
  );

async function transaction(topic, group, work) {
  const options = { ...common, transactionalId: group, idempotent: true };
  await using(new Producer(options), async (producer) => work(await producer.beginTransaction()));
}

const row = ({ offset, key, value }) => [Number(offset), text(key), text(value)];

async function offsets(topic, timestamp) {
  return asConsumer("unused", async (consumer) => {
    return Number((await consumer.listOffsets({ topics: [topic], timestamp })).get(topic)[0]);
  });
}

async function share(topic, group) {
  const members = [0, 1].map(() => new Consumer({ ...common, groupId: group, heartbeatInterval: 500 }));
  try {
    const streams = await Promise.all(members.map((member) => member.consume({ topics: [topic], mode: "latest" })));
    const count = (member) => (member.assignments ?? []).flatMap(({ partitions }) => partitions).length;
    const shared = (async () => {
      while (members.some((member) => count(member) !== 1)) {
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    })();
    await within(shared, "sharing");
    await Promise.all(streams.map((stream) => stream.close()));
    return { assigned: [1, 1] };
  } finally {
    await Promise.all(members.map((member) => member.close(true)));
  }
}

drive({
  "create-topic": (topic) =>
    asAdmin(async (admin) => {
      const configs = [{ name: "max.message.bytes", value: "500000" }];
      await admin.createTopics({ topics: [topic], partitions: 3, replicas: 1, configs });
    }),
  "list-topics": (topic) => asAdmin(async (admin) => ({ listed: (await admin.listTopics()).includes(topic) })),
  "describe-topic": (topic) =>
    asAdmin(async (admin) => {
      const { topics } = await admin.metadata({ topics: [topic] });
      return { partitions: topics.get(topic).partitionsCount };
    }),
  "describe-cluster": () =>
    asAdmin(async (admin) => {
      const { brokers } = await admin.metadata({});
      return { brokers: [...brokers.values()].map(({ host, port }) => `${host}:${port}`) };
    }),
  "add-partitions": (topic) =>
    asAdmin(async (admin) => {
      await admin.createPartitions({ topics: [{ name: topic, count: 4, assignments: null }] });
    }),
  "describe-configs": (topic) =>
    asAdmin(async (admin) => {
      const resource = { resourceType: TOPIC_RESOURCE, resourceName: topic, configurationKeys: null };
      const [{ configs }] = await admin.describeConfigs({ resources: [resource] });
      return { "retention.ms": configs.find(({ name }) => name === "retention.ms").value };
    }),
  "alter-configs": (topic) =>
    asAdmin(async (admin) => {
      const configs = [{ name: "retention.ms", configOperation: 0, value: "654321" }];
      const resource = { resourceType: TOPIC_RESOURCE, resourceName: topic, configs };
      await admin.incrementalAlterConfigs({ resources: [resource] });
    }),
  "list-offsets": async (topic) => ({ earliest: await offsets(topic, -2n), latest: await offsets(topic, -1n) }),
  "delete-records": (topic) =>
    asAdmin(async (admin) => {
      const asked = [{ name: topic, partitions: [{ partition: 0, offset: 4n }] }];
      const [{ partitions }] = await admin.deleteRecords({ topics: asked });
      return { low: Number(partitions[0].lowWatermark) };
    }),
  "delete-topic": (topic) =>
    asAdmin(async (admin) => {
      await admin.deleteTopics({ topics: [topic] });
    }),
  "describe-acls": () =>
    asAdmin(async (admin) => {
      const any = { resourceType: 1, resourcePatternType: 1, operation: 1, permissionType: 1 };
      const filter = { ...any, resourceName: null, principal: null, host: null };
      return { acls: (await admin.describeAcls({ filter })).length };
    }),
  "list-groups": (_topic, group) =>
    asAdmin(async (admin) => ({ listed: (await admin.listGroups({ types: ["classic"] })).has(group) })),
  "describe-group": (_topic, group) =>
    asAdmin(async (admin) => {
      const described = (await admin.describeGroups({ groups: [group] })).get(group);
      return { state: described.state.toLowerCase(), members: described.members.size };
    }),
  "list-group-offsets": (topic, group) =>
    asAdmin(async (admin) => {
      const [{ topics }] = await admin.listConsumerGroupOffsets({ groups: [group] });
      const found = topics.find(({ name }) => name === topic);
      return { offset: Number(found.partitions[0].committedOffset) };
    }),
  "delete-group": (_topic, group) =>
    asAdmin(async (admin) => {
      await admin.deleteGroups({ groups: [group] });
    }),
  produce: (topic, codec) => send(records(topic), { compression: codec }),
  acks: (topic, acks) => send(records(topic), { acks: Number(acks) }),
  idempotent: (topic) => send(records(topic), { idempotent: true, acks: -1 }),
  timestamps: (topic) => send(records(topic).map((each, n) => ({ ...each, timestamp: BigInt(timestampMs(n)) }))),
  headers: (topic) => {
    const message = { topic, key: Buffer.from("key"), value: Buffer.from("value") };
    const headers = new Map([[Buffer.from("trace"), Buffer.from("1")]]);
    headers.set(Buffer.from("trace"), Buffer.from("2"));
    headers.set(Buffer.from("empty"), Buffer.alloc(0));
    return send([{ ...message, headers }]);
  },
  "null-key": (topic) => send([{ topic, key: null, value: Buffer.from("value") }]),
  "null-value": (topic) => send([{ topic, key: Buffer.from("key"), value: null }]),
  megabyte: (topic) => send([{ topic, key: Buffer.from("key"), value: Buffer.alloc(1_000_000, "m") }]),
  "too-large": (topic) => send([{ topic, key: Buffer.from("key"), value: Buffer.alloc(5000, "m") }]),
  "auto-create": (topic) => send([{ topic, key: Buffer.from("key"), value: Buffer.from("value") }]),
  read: async (topic, argument) => ({ records: (await consume(topic, `${topic}-${argument}`, COUNT)).map(row) }),
  "read-timestamps": async (topic, group) => {
    return { timestamps: (await consume(topic, group, COUNT)).map(({ timestamp }) => Number(timestamp)) };
  },
  "read-nulls": async (topic, group) => ({ records: (await consume(topic, group, 2)).map(row) }),
  "read-megabyte": async (topic, group) => {
    return { sizes: (await consume(topic, group, 1)).map((each) => each.value.length) };
  },
  "seek-offset": async (topic, group) => {
    const manual = { mode: "manual", offsets: [{ topic, partition: 0, offset: 7n }] };
    return { offsets: (await consume(topic, group, 3, manual)).map(({ offset }) => Number(offset)) };
  },
  "seek-end": async (topic) => ({ ends: [await offsets(topic, -2n), await offsets(topic, -1n)] }),
  "seek-time": async (topic) => ({ offset: await offsets(topic, BigInt(timestampMs(4) + 1)) }),
  "read-committed": async (topic, group) => {
    const found = await consume(topic, group, 5, { mode: "earliest", isolationLevel: 1 });
    return { keys: found.map((each) => text(each.key)) };
  },
  "group-read": (topic, group) => consumeAndCommit(topic, group, COUNT),
  "group-resume": (topic, group) => consumeAndCommit(topic, group, 4),
  "static-member": (topic, group) => consumeAndCommit(topic, group, COUNT, { groupInstanceId: "one" }),
  "consumer-protocol": (topic, group) => consumeAndCommit(topic, group, COUNT, { groupProtocol: "consumer" }),
  "group-share": share,
  commit: (topic, group) =>
    asAdmin(async (admin) => {
      const topics = [{ name: topic, partitionOffsets: [{ partition: 0, offset: 4n }] }];
      await admin.alterConsumerGroupOffsets({ groupId: group, topics });
      const [{ topics: found }] = await admin.listConsumerGroupOffsets({ groups: [group] });
      return { committed: Number(found[0].partitions[0].committedOffset) };
    }),
  "txn-commit": (topic, group) =>
    transaction(topic, group, async (begun) => {
      await begun.send({ messages: records(topic) });
      await begun.commit();
    }),
  "txn-abort": (topic, group) =>
    transaction(topic, group, async (begun) => {
      await begun.send({ messages: records(topic) });
      await begun.abort();
    }),
  "txn-fence": (topic, group) =>
    transaction(topic, group, async (first) => {
      await transaction(topic, group, async (second) => {
        await second.send({ messages: records(topic) });
        await second.commit();
      });
      await first.send({ messages: records(topic) });
      await first.commit();
    }),
});
