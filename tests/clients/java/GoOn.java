import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Collections;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * For each number on its input, produces that many records and reads them, with one producer and one consumer that
 * live on; after each round it prints "offset:value" of what it read.
 *
 * <p>Arguments: bootstrap servers, topic.
 */
public final class GoOn {
    private static final long DEADLINE_MS = 180_000;

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("enable.auto.commit", "false");
        TopicPartition partition = new TopicPartition(arguments[1], 0);
        BufferedReader rounds = new BufferedReader(new InputStreamReader(System.in));
        try (KafkaProducer<String, String> producer =
                        new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
                KafkaConsumer<String, String> consumer =
                        new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(Collections.singletonList(partition));
            consumer.seekToBeginning(Collections.singletonList(partition));
            for (String line = rounds.readLine(); line != null; line = rounds.readLine()) {
                int count = Integer.parseInt(line);
                for (int i = 0; i < count; i++) {
                    producer.send(new ProducerRecord<>(partition.topic(), 0, "key", "value" + i))
                            .get(DEADLINE_MS, TimeUnit.MILLISECONDS);
                }
                System.out.println(read(consumer, partition, count));
            }
        }
    }

    private static String read(KafkaConsumer<String, String> consumer, TopicPartition partition, int count) {
        StringBuilder read = new StringBuilder();
        long deadline = System.currentTimeMillis() + DEADLINE_MS;
        for (int left = count; left > 0 && System.currentTimeMillis() < deadline; ) {
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500)).records(partition)) {
                read.append(record.offset()).append(':').append(record.value()).append(' ');
                left--;
            }
        }
        return read.toString().trim();
    }

    private GoOn() {}
}
