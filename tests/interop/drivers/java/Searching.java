import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/** Offsets by time and of both ends, from 0.10.1 on. */
final class Searching {
    static Object seekTime(String topic, String group) {
        try (KafkaConsumer<byte[], byte[]> consumer = Consuming.consumer()) {
            TopicPartition partition = new TopicPartition(topic, 0);
            long timestamp = Driver.timestampMs(4) + 1;
            long offset = consumer.offsetsForTimes(Collections.singletonMap(partition, timestamp))
                    .get(partition).offset();
            return Collections.singletonMap("offset", offset);
        }
    }

    static Object listOffsets(String topic, String group) {
        try (KafkaConsumer<byte[], byte[]> consumer = Consuming.consumer()) {
            TopicPartition partition = new TopicPartition(topic, 0);
            List<TopicPartition> asked = Collections.singletonList(partition);
            Map<String, Object> ends = new LinkedHashMap<>();
            ends.put("earliest", consumer.beginningOffsets(asked).get(partition));
            ends.put("latest", consumer.endOffsets(asked).get(partition));
            return ends;
        }
    }

    private Searching() {}
}
