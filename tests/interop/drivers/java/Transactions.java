import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;

/** Headers and transactions, from 0.11 on. */
final class Transactions {
    static Object headers(String topic, String group) throws Exception {
        RecordHeaders headers = new RecordHeaders();
        headers.add("trace", Driver.bytes("1")).add("trace", Driver.bytes("2")).add("empty", new byte[0]);
        return Producing.sendOne(
                new ProducerRecord<>(topic, 0, null, Driver.bytes("key"), Driver.bytes("value"), headers));
    }

    static Object readHeaders(String topic, String group) throws Exception {
        List<Object> headers = new ArrayList<>();
        Consuming.read(topic, 1).get(0).headers().forEach(
                header -> headers.add(Arrays.asList(header.key(), Driver.text(header.value()))));
        return Collections.singletonMap("headers", headers);
    }

    static Object readCommitted(String topic, String group) throws Exception {
        List<Object> keys = new ArrayList<>();
        Consuming.read(topic, 5, "isolation.level", "read_committed")
                .forEach(record -> keys.add(Driver.text(record.key())));
        return Collections.singletonMap("keys", keys);
    }

    static Object txnCommit(String topic, String group) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = begun(group)) {
            Producing.sendAll(producer, topic);
            producer.commitTransaction();
        }
        return null;
    }

    static Object txnAbort(String topic, String group) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = begun(group)) {
            Producing.sendAll(producer, topic);
            producer.abortTransaction();
        }
        return null;
    }

    static Object txnOffsets(String topic, String group) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = begun(group)) {
            sendOffsets(producer, Collections.singletonMap(
                    new TopicPartition(topic, 0), new OffsetAndMetadata(Driver.PASSED)), group);
            Producing.sendAll(producer, topic);
            producer.commitTransaction();
        }
        return null;
    }

    /** Releases from 2.5 on have the group's metadata, those from 4.0 on nothing else. */
    private static void sendOffsets(
            KafkaProducer<byte[], byte[]> producer, Map<TopicPartition, OffsetAndMetadata> offsets, String group)
            throws Exception {
        try (KafkaConsumer<byte[], byte[]> consumer = Consuming.consumer("group.id", group)) {
            Object metadata = Driver.call(consumer, "groupMetadata");
            Driver.call(producer, "sendOffsetsToTransaction", offsets, metadata);
        } catch (NoSuchMethodException older) {
            Driver.call(producer, "sendOffsetsToTransaction", offsets, group);
        }
    }

    static Object txnFence(String topic, String group) throws Exception {
        KafkaProducer<byte[], byte[]> first = begun(group);
        try (KafkaProducer<byte[], byte[]> second = begun(group)) {
            Producing.sendAll(first, topic);
            first.commitTransaction();
        } finally {
            first.close();
        }
        return null;
    }

    private static KafkaProducer<byte[], byte[]> begun(String name) {
        KafkaProducer<byte[], byte[]> producer = Producing.producer("transactional.id", name);
        producer.initTransactions();
        producer.beginTransaction();
        return producer;
    }

    private Transactions() {}
}
