import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Timestamps, from 0.10.0 on. */
final class Stamping {
    static Object timestamps(String topic, String group) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = Producing.producer()) {
            for (int n = 0; n < Driver.COUNT; n++) {
                long timestamp = Driver.timestampMs(n);
                Driver.get(producer.send(
                        new ProducerRecord<>(topic, 0, timestamp, Driver.key(n), Driver.value(n))));
            }
        }
        return null;
    }

    static Object readTimestamps(String topic, String group) throws Exception {
        List<Object> timestamps = new ArrayList<>();
        Consuming.read(topic, Driver.COUNT).forEach(record -> timestamps.add(record.timestamp()));
        return Collections.singletonMap("timestamps", timestamps);
    }

    private Stamping() {}
}
