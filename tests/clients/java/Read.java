import java.util.Collections;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Prints offset, key and value of the first records of partition 0, for clients from 0.9 to 3.9.
 *
 * <p>Arguments: bootstrap servers, topic, number of records.
 */
public final class Read {
    private static final long DEADLINE_MS = 180_000;

    public static void main(String[] arguments) {
        TopicPartition partition = new TopicPartition(arguments[1], 0);
        int left = Integer.parseInt(arguments[2]);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("enable.auto.commit", "false");
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(Collections.singletonList(partition));
            consumer.seek(partition, 0);
            long deadline = System.currentTimeMillis() + DEADLINE_MS;
            while (left > 0 && System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<String, String> record : consumer.poll(500)) {
                    System.out.println(record.offset() + " " + record.key() + " " + record.value());
                    left--;
                }
            }
        }
    }

    private Read() {}
}
