import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** What the consumer can do in all releases from 0.9 on. */
final class Consuming {
    static Object listTopics(String topic, String group) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            return Collections.singletonMap("listed", consumer.listTopics().containsKey(topic));
        }
    }

    static Object describeTopic(String topic, String group) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            return Collections.singletonMap("partitions", consumer.partitionsFor(topic).size());
        }
    }

    static Object read(String topic, String codec) throws Exception {
        return rows(read(topic, Driver.COUNT));
    }

    static Object readNulls(String topic, String group) throws Exception {
        return rows(read(topic, 2));
    }

    static Object readMegabyte(String topic, String group) throws Exception {
        List<Object> sizes = new ArrayList<>();
        read(topic, 1).forEach(record -> sizes.add(record.value().length));
        return Collections.singletonMap("sizes", sizes);
    }

    static Object seekOffset(String topic, String group) throws Exception {
        List<Object> offsets = new ArrayList<>();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            TopicPartition partition = assign(consumer, topic);
            consumer.seek(partition, 7);
            poll(consumer, 3).forEach(record -> offsets.add(record.offset()));
        }
        return Collections.singletonMap("offsets", offsets);
    }

    static Object seekEnd(String topic, String group) throws Exception {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            TopicPartition partition = assign(consumer, topic);
            long[] ends = {seek(consumer, "seekToBeginning", partition), seek(consumer, "seekToEnd", partition)};
            return Collections.singletonMap("ends", Arrays.asList(ends[0], ends[1]));
        }
    }

    private static long seek(KafkaConsumer<byte[], byte[]> consumer, String method, TopicPartition partition)
            throws Exception {
        try {
            Driver.call(consumer, method, Collections.singletonList(partition));
        } catch (NoSuchMethodException older) {
            Driver.call(consumer, method, (Object) new TopicPartition[] {partition});
        }
        return consumer.position(partition);
    }

    static Object groupRead(String topic, String group) throws Exception {
        return groupRead(topic, Driver.COUNT, "group.id", group);
    }

    static Object groupResume(String topic, String group) throws Exception {
        return groupRead(topic, 4, "group.id", group);
    }

    static Object staticMember(String topic, String group) throws Exception {
        return groupRead(topic, Driver.COUNT, "group.id", group, "group.instance.id", "one");
    }

    static Object consumerProtocol(String topic, String group) throws Exception {
        return groupRead(topic, Driver.COUNT, "group.id", group, "group.protocol", "consumer");
    }

    static Object groupShare(String topic, String group) throws Exception {
        return share(topic, "group.id", group);
    }

    static Object cooperative(String topic, String group) throws Exception {
        String assignor = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor";
        return share(topic, "group.id", group, "partition.assignment.strategy", assignor);
    }

    static Object commit(String topic, String group) throws Exception {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer("group.id", group)) {
            TopicPartition partition = assign(consumer, topic);
            consumer.commitSync(Collections.singletonMap(partition, new OffsetAndMetadata(4)));
            return Collections.singletonMap("committed", committed(consumer, partition).offset());
        }
    }

    private static OffsetAndMetadata committed(KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition)
            throws Exception {
        try {
            return (OffsetAndMetadata) Driver.call(consumer, "committed", partition);
        } catch (NoSuchMethodException newer) {
            Object found = Driver.call(consumer, "committed", Collections.singleton(partition));
            return (OffsetAndMetadata) ((Map<?, ?>) found).get(partition);
        }
    }

    static KafkaConsumer<byte[], byte[]> consumer(String... more) {
        Properties settings = Driver.settings("enable.auto.commit", "false", "auto.offset.reset", "earliest");
        settings.putAll(Driver.settings(more));
        if (!settings.containsKey("group.id")) {
            // Releases before 2.2 have no consumer without a group.
            settings.put("group.id", "unused");
        }
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static TopicPartition assign(KafkaConsumer<byte[], byte[]> consumer, String topic) {
        TopicPartition partition = new TopicPartition(topic, 0);
        consumer.assign(Collections.singletonList(partition));
        return partition;
    }

    static List<ConsumerRecord<byte[], byte[]>> read(String topic, int count, String... more) throws Exception {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(more)) {
            consumer.seek(assign(consumer, topic), 0);
            return poll(consumer, count);
        }
    }

    static List<ConsumerRecord<byte[], byte[]>> poll(KafkaConsumer<byte[], byte[]> consumer, int count)
            throws Exception {
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        long deadline = System.currentTimeMillis() + Driver.WAIT_MS;
        while (records.size() < count && System.currentTimeMillis() < deadline) {
            poll(consumer).forEach(records::add);
        }
        return records;
    }

    /** Clients before 2.0 take milliseconds, those from 4.0 on only a Duration. */
    @SuppressWarnings("unchecked")
    private static ConsumerRecords<byte[], byte[]> poll(KafkaConsumer<byte[], byte[]> consumer) throws Exception {
        try {
            Object wait = java.time.Duration.ofMillis(100);
            return (ConsumerRecords<byte[], byte[]>) Driver.call(consumer, "poll", wait);
        } catch (NoSuchMethodException older) {
            return (ConsumerRecords<byte[], byte[]>) Driver.call(consumer, "poll", 100L);
        }
    }

    private static Object rows(List<ConsumerRecord<byte[], byte[]>> records) {
        List<Object> rows = new ArrayList<>();
        for (ConsumerRecord<byte[], byte[]> each : records) {
            rows.add(Arrays.asList(each.offset(), Driver.text(each.key()), Driver.text(each.value())));
        }
        return Collections.singletonMap("records", rows);
    }

    private static Object groupRead(String topic, int count, String... more) throws Exception {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(more)) {
            consumer.subscribe(Collections.singletonList(topic));
            int found = poll(consumer, count).size();
            consumer.commitSync();
            return Collections.singletonMap("count", found);
        }
    }

    /** Each member has a thread: in old releases a poll blocks until the rebalance has ended. */
    private static Object share(String topic, String... more) throws Exception {
        int[] counts = new int[2];
        AtomicBoolean shared = new AtomicBoolean();
        long deadline = System.currentTimeMillis() + Driver.WAIT_MS;
        Thread[] members = new Thread[2];
        for (int i = 0; i < 2; i++) {
            int member = i;
            members[i] = new Thread(() -> {
                try (KafkaConsumer<byte[], byte[]> consumer = consumer(more)) {
                    consumer.subscribe(Collections.singletonList(topic));
                    while (!shared.get() && System.currentTimeMillis() < deadline) {
                        poll(consumer);
                        counts[member] = consumer.assignment().size();
                        // Once they share, one of them leaves and the other gets both.
                        if (counts[0] == 1 && counts[1] == 1) {
                            shared.set(true);
                        }
                    }
                } catch (Exception error) {
                    throw new IllegalStateException(error);
                }
            });
            members[i].start();
        }
        for (Thread each : members) {
            each.join(Driver.WAIT_MS);
        }
        List<Integer> assigned = shared.get() ? Arrays.asList(1, 1) : Arrays.asList(counts[0], counts[1]);
        return Collections.singletonMap("assigned", assigned);
    }

    private Consuming() {}
}
