import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Collection;
import java.util.Collections;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A member of a group, for clients from 0.10 on. It takes bootstrap servers, topic, group and key=value settings and
 * speaks as the members in Python do.
 */
public final class Member implements ConsumerRebalanceListener {
    private static final long POLL_MS = 100;
    private final TreeSet<Integer> owned = new TreeSet<>();

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[2]);
        settings.put("auto.offset.reset", "earliest");
        for (int i = 3; i < arguments.length; i++) {
            String[] sides = arguments[i].split("=", 2);
            settings.put(sides[0], sides[1]);
        }
        ConcurrentLinkedQueue<String> commands = listen();
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(Collections.singletonList(arguments[1]), new Member());
            for (String command = null; !"leave".equals(command); command = commands.poll()) {
                if ("commit".equals(command)) {
                    consumer.commitSync();
                    tell("committed");
                }
                for (ConsumerRecord<byte[], byte[]> record : poll(consumer)) {
                    tell("read " + record.partition() + " " + record.offset());
                }
            }
        }
    }

    private static ConcurrentLinkedQueue<String> listen() {
        ConcurrentLinkedQueue<String> commands = new ConcurrentLinkedQueue<>();
        Thread listener = new Thread(() -> {
            new BufferedReader(new InputStreamReader(System.in)).lines().forEach(commands::add);
            commands.add("leave");
        });
        listener.setDaemon(true);
        listener.start();
        return commands;
    }

    /** Clients before 2.0 take milliseconds, those from 4.0 on only a Duration. */
    @SuppressWarnings("unchecked")
    private static ConsumerRecords<byte[], byte[]> poll(KafkaConsumer<byte[], byte[]> consumer) throws Exception {
        Object polled;
        try {
            Object wait = java.time.Duration.ofMillis(POLL_MS);
            polled = KafkaConsumer.class.getMethod("poll", java.time.Duration.class).invoke(consumer, wait);
        } catch (NoSuchMethodException older) {
            polled = KafkaConsumer.class.getMethod("poll", long.class).invoke(consumer, POLL_MS);
        }
        return (ConsumerRecords<byte[], byte[]>) polled;
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        partitions.forEach(each -> owned.add(each.partition()));
        tellOwned();
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        partitions.forEach(each -> owned.remove(each.partition()));
        tellOwned();
    }

    private void tellOwned() {
        tell("owns " + owned.stream().map(String::valueOf).collect(Collectors.joining(",")));
    }

    private static void tell(String what) {
        System.out.println(System.nanoTime() + " " + what);
    }
}
