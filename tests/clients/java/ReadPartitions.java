import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Prints partition, offset and value of the first records of several partitions.
 *
 * <p>Arguments: bootstrap servers, topic, number of partitions, number of records.
 */
public final class ReadPartitions {
    private static final long DEADLINE_MS = 180_000;

    public static void main(String[] arguments) {
        List<TopicPartition> partitions = new ArrayList<>();
        for (int index = 0; index < Integer.parseInt(arguments[2]); index++) {
            partitions.add(new TopicPartition(arguments[1], index));
        }
        int left = Integer.parseInt(arguments[3]);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("enable.auto.commit", "false");
        settings.put("fetch.max.wait.ms", "50");
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            long deadline = System.currentTimeMillis() + DEADLINE_MS;
            while (left > 0 && System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    System.out.println(record.partition() + " " + record.offset() + " " + record.value());
                    left--;
                }
            }
        }
    }

    private ReadPartitions() {}
}
