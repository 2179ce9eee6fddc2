import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import kafka.api.FetchRequestBuilder;
import kafka.api.PartitionOffsetRequestInfo;
import kafka.common.OffsetAndMetadata;
import kafka.common.TopicAndPartition;
import kafka.javaapi.FetchResponse;
import kafka.javaapi.OffsetCommitRequest;
import kafka.javaapi.OffsetFetchRequest;
import kafka.javaapi.OffsetRequest;
import kafka.javaapi.TopicMetadata;
import kafka.javaapi.TopicMetadataRequest;
import kafka.javaapi.consumer.SimpleConsumer;
import kafka.javaapi.producer.Producer;
import kafka.message.MessageAndOffset;
import kafka.producer.KeyedMessage;
import kafka.producer.ProducerConfig;

/** The producer and the SimpleConsumer in Scala, which need no ZooKeeper. */
final class Scala {
    private static final int MAX_BYTES = 2_000_000;

    static Object listTopics(String topic, String group) {
        boolean listed = false;
        for (TopicMetadata each : metadata(Collections.emptyList())) {
            listed |= each.topic().equals(topic);
        }
        return Collections.singletonMap("listed", listed);
    }

    static Object describeTopic(String topic, String group) {
        TopicMetadata found = metadata(Collections.singletonList(topic)).get(0);
        return Collections.singletonMap("partitions", found.partitionsMetadata().size());
    }

    static Object listOffsets(String topic, String group) {
        Map<String, Object> ends = new LinkedHashMap<>();
        ends.put("earliest", offset(topic, -2));
        ends.put("latest", offset(topic, -1));
        return ends;
    }

    static Object produce(String topic, String codec) {
        return sendAll(topic, "compression.codec", codec);
    }

    static Object acks(String topic, String acks) {
        return sendAll(topic, "request.required.acks", acks);
    }

    static Object nullKey(String topic, String group) {
        return send(Collections.singletonList(message(topic, null, Driver.bytes("value"))));
    }

    static Object nullValue(String topic, String group) {
        return send(Collections.singletonList(message(topic, Driver.bytes("key"), null)));
    }

    static Object megabyte(String topic, String group) {
        byte[] letters = new byte[Driver.MEGABYTE];
        Arrays.fill(letters, (byte) 'm');
        return send(Collections.singletonList(message(topic, Driver.bytes("key"), letters)));
    }

    static Object autoCreate(String topic, String group) {
        return send(Collections.singletonList(message(topic, Driver.bytes("key"), Driver.bytes("value"))));
    }

    static Object read(String topic, String codec) {
        return Collections.singletonMap("records", fetch(topic, 0));
    }

    static Object readNulls(String topic, String group) {
        return Collections.singletonMap("records", fetch(topic, 0));
    }

    static Object readMegabyte(String topic, String group) {
        List<Object> sizes = new ArrayList<>();
        fetch(topic, 0).forEach(row -> sizes.add(((String) row.get(2)).length()));
        return Collections.singletonMap("sizes", sizes);
    }

    static Object seekOffset(String topic, String group) {
        List<Object> offsets = new ArrayList<>();
        fetch(topic, 7).forEach(row -> offsets.add(row.get(0)));
        return Collections.singletonMap("offsets", offsets);
    }

    static Object seekEnd(String topic, String group) {
        return Collections.singletonMap("ends", Arrays.asList(offset(topic, -2), offset(topic, -1)));
    }

    static Object commit(String topic, String group) {
        TopicAndPartition partition = new TopicAndPartition(topic, 0);
        OffsetAndMetadata position = OffsetAndMetadata.apply(4, "", System.currentTimeMillis());
        SimpleConsumer consumer = consumer();
        try {
            consumer.commitOffsets(new OffsetCommitRequest(
                    group, new LinkedHashMap<>(Collections.singletonMap(partition, position)), 1, "interop", (short) 1));
            OffsetFetchRequest asked =
                    new OffsetFetchRequest(group, Collections.singletonList(partition), (short) 1, 2, "interop");
            return Collections.singletonMap("committed", consumer.fetchOffsets(asked).offsets().get(partition).offset());
        } finally {
            consumer.close();
        }
    }

    private static SimpleConsumer consumer() {
        String[] address = Driver.bootstrap.split(":");
        return new SimpleConsumer(address[0], Integer.parseInt(address[1]), 10_000, MAX_BYTES, "interop");
    }

    private static List<TopicMetadata> metadata(List<String> topics) {
        SimpleConsumer consumer = consumer();
        try {
            return consumer.send(new TopicMetadataRequest(topics)).topicsMetadata();
        } finally {
            consumer.close();
        }
    }

    private static long offset(String topic, long time) {
        TopicAndPartition partition = new TopicAndPartition(topic, 0);
        Map<TopicAndPartition, PartitionOffsetRequestInfo> asked = new LinkedHashMap<>();
        asked.put(partition, new PartitionOffsetRequestInfo(time, 1));
        SimpleConsumer consumer = consumer();
        try {
            return consumer.getOffsetsBefore(new OffsetRequest(asked, (short) 0, "interop")).offsets(topic, 0)[0];
        } finally {
            consumer.close();
        }
    }

    private static List<List<Object>> fetch(String topic, long offset) {
        List<List<Object>> rows = new ArrayList<>();
        SimpleConsumer consumer = consumer();
        try {
            FetchResponse response = consumer.fetch(
                    new FetchRequestBuilder().clientId("interop").addFetch(topic, 0, offset, MAX_BYTES).build());
            if (response.hasError()) {
                throw new IllegalStateException("error " + response.errorCode(topic, 0));
            }
            for (MessageAndOffset each : response.messageSet(topic, 0)) {
                // The first message may be one before: a compressed set comes whole.
                if (each.offset() >= offset) {
                    rows.add(Arrays.asList(
                            each.offset(), text(each.message().key()), text(each.message().payload())));
                }
            }
        } finally {
            consumer.close();
        }
        return rows;
    }

    private static String text(java.nio.ByteBuffer buffer) {
        if (buffer == null) {
            return null;
        }
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return Driver.text(bytes);
    }

    private static KeyedMessage<byte[], byte[]> message(String topic, byte[] key, byte[] value) {
        return new KeyedMessage<>(topic, key, value);
    }

    private static Object sendAll(String topic, String... more) {
        List<KeyedMessage<byte[], byte[]>> messages = new ArrayList<>();
        for (int n = 0; n < Driver.COUNT; n++) {
            messages.add(message(topic, Driver.key(n), Driver.value(n)));
        }
        return send(messages, more);
    }

    private static Object send(List<KeyedMessage<byte[], byte[]>> messages, String... more) {
        Properties settings = new Properties();
        settings.put("metadata.broker.list", Driver.bootstrap);
        settings.put("request.required.acks", "1");
        for (int i = 0; i < more.length; i += 2) {
            settings.put(more[i], more[i + 1]);
        }
        Producer<byte[], byte[]> producer = new Producer<>(new ProducerConfig(settings));
        try {
            producer.send(messages);
        } finally {
            producer.close();
        }
        return null;
    }

    private Scala() {}
}
