import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** What the producer can do in all releases from 0.8.2 on. */
final class Producing {
    static Object produce(String topic, String codec) throws Exception {
        return sendAll(topic, "compression.type", codec);
    }

    static Object acks(String topic, String acks) throws Exception {
        return sendAll(topic, "acks", acks, "retries", "0");
    }

    static Object idempotent(String topic, String group) throws Exception {
        return sendAll(topic, "enable.idempotence", "true", "acks", "all");
    }

    static Object nullKey(String topic, String group) throws Exception {
        return sendOne(new ProducerRecord<>(topic, 0, null, Driver.bytes("value")));
    }

    static Object nullValue(String topic, String group) throws Exception {
        return sendOne(new ProducerRecord<>(topic, 0, Driver.bytes("key"), null));
    }

    static Object megabyte(String topic, String group) throws Exception {
        return sendOne(new ProducerRecord<>(topic, 0, Driver.bytes("key"), letters(Driver.MEGABYTE)));
    }

    static Object tooLarge(String topic, String group) throws Exception {
        return sendOne(new ProducerRecord<>(topic, 0, Driver.bytes("key"), letters(5000)));
    }

    static Object autoCreate(String topic, String group) throws Exception {
        return sendOne(new ProducerRecord<>(topic, Driver.bytes("key"), Driver.bytes("value")));
    }

    private static byte[] letters(int count) {
        byte[] letters = new byte[count];
        java.util.Arrays.fill(letters, (byte) 'm');
        return letters;
    }

    static KafkaProducer<byte[], byte[]> producer(String... more) {
        Properties settings = Driver.settings("linger.ms", "50");
        settings.putAll(Driver.settings(more));
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static Object sendOne(ProducerRecord<byte[], byte[]> record) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            Driver.get(producer.send(record));
        }
        return null;
    }

    private static Object sendAll(String topic, String... more) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer(more)) {
            sendAll(producer, topic);
        }
        return null;
    }

    static void sendAll(KafkaProducer<byte[], byte[]> producer, String topic) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (int n = 0; n < Driver.COUNT; n++) {
            sent.add(producer.send(new ProducerRecord<>(topic, 0, Driver.key(n), Driver.value(n))));
        }
        for (Future<RecordMetadata> each : sent) {
            Driver.get(each);
        }
    }

    private Producing() {}
}
