import java.io.FileInputStream;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Produces ten values to a topic and reads them as a member of a group, for clients from 0.11 on.
 *
 * <p>Arguments: a topic and a properties file with the keys of a client, and so on; all are tried at once. A line for
 * each value that was read: the topic, "read" and the value, separated by tabs; or the topic, "error" and what it is.
 */
public final class SecuredGroup {
    private static final int COUNT = 10;
    private static final long DEADLINE_MS = 60_000;

    public static void main(String[] arguments) throws Exception {
        ExecutorService threads = Executors.newCachedThreadPool();
        List<String> topics = new ArrayList<>();
        List<Future<List<String>>> outcomes = new ArrayList<>();
        for (int i = 0; i < arguments.length; i += 2) {
            String topic = arguments[i];
            Properties settings = new Properties();
            try (InputStream file = new FileInputStream(arguments[i + 1])) {
                settings.load(file);
            }
            topics.add(topic);
            outcomes.add(threads.submit((Callable<List<String>>) () -> roundTrip(topic, settings)));
        }
        for (int i = 0; i < topics.size(); i++) {
            try {
                for (String value : outcomes.get(i).get()) {
                    System.out.println(topics.get(i) + "\tread\t" + value);
                }
            } catch (Exception error) {
                System.out.println(topics.get(i) + "\terror\t" + error);
            }
        }
        System.exit(0);
    }

    private static List<String> roundTrip(String topic, Properties settings) throws Exception {
        settings.put("group.id", topic);
        settings.put("auto.offset.reset", "earliest");
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < COUNT; number++) {
                producer.send(new ProducerRecord<>(topic, "value " + number)).get(60, TimeUnit.SECONDS);
            }
        }
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(Collections.singletonList(topic));
            long deadline = System.currentTimeMillis() + DEADLINE_MS;
            while (values.size() < COUNT && System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<String, String> record : poll(consumer)) {
                    values.add(record.value());
                }
            }
            consumer.commitSync();
        }
        return values;
    }

    /** Clients before 2.0 take milliseconds, those from 4.0 on only a Duration. */
    @SuppressWarnings("unchecked")
    private static ConsumerRecords<String, String> poll(KafkaConsumer<String, String> consumer) throws Exception {
        Object polled;
        try {
            Object wait = java.time.Duration.ofMillis(500);
            polled = KafkaConsumer.class.getMethod("poll", java.time.Duration.class).invoke(consumer, wait);
        } catch (NoSuchMethodException older) {
            polled = KafkaConsumer.class.getMethod("poll", long.class).invoke(consumer, 500L);
        }
        return (ConsumerRecords<String, String>) polled;
    }

    private SecuredGroup() {}
}
