import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Creates a topic, writes the records on its input, reads them as a group of the consumer protocol (KIP-848), commits,
 * and deletes the topic, for clients from 4.0 on.
 *
 * <p>Arguments: topic, then key=value settings of all clients. A line of the input is a key and a value, separated by
 * a space; "null" for null.
 */
public final class Golden {
    private static final Duration WAIT = Duration.ofMillis(500);
    private static final long DEADLINE_MS = 120_000;

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[0];
        Properties settings = new Properties();
        for (String setting : List.of(arguments).subList(1, arguments.length)) {
            String[] sides = setting.split("=", 2);
            settings.put(sides[0], sides[1]);
        }
        List<String> lines = List.of(new String(System.in.readAllBytes()).split("\n"));
        try (Admin admin = Admin.create(settings)) {
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get();
            write(settings, topic, lines);
            read(settings, topic, lines.size());
            admin.deleteTopics(List.of(topic)).all().get();
        }
    }

    private static void write(Properties settings, String topic, List<String> lines) throws Exception {
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (String line : lines) {
                String[] words = line.split(" ", 2);
                producer.send(new ProducerRecord<>(topic, orNull(words[0]), orNull(words[1]))).get();
            }
        }
    }

    private static void read(Properties settings, String topic, int count) {
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            long deadline = System.currentTimeMillis() + DEADLINE_MS;
            for (int read = 0; read < count; read += consumer.poll(WAIT).count()) {
                if (System.currentTimeMillis() > deadline) {
                    throw new IllegalStateException("read " + read + " of " + count + " records");
                }
            }
            consumer.commitSync();
        }
    }

    private static String orNull(String word) {
        return word.equals("null") ? null : word;
    }

    private Golden() {}
}
