import java.util.Collections;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The life of a topic through the admin client, one line for each step. Arguments: bootstrap servers, topic.
 */
public final class Topics {
    public static void main(String[] arguments) throws Exception {
        String name = arguments[1];
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        try (AdminClient admin = AdminClient.create(settings)) {
            NewTopic topic = new NewTopic(name, 3, (short) 1);
            topic.configs(Collections.singletonMap("max.message.bytes", "500000"));
            admin.createTopics(Collections.singleton(topic)).all().get();
            System.out.println("listed " + admin.listTopics().names().get().contains(name));
            System.out.println("again " + refusal(() -> admin.createTopics(Collections.singleton(topic)).all().get()));
            TopicDescription described =
                    admin.describeTopics(Collections.singleton(name)).allTopicNames().get().get(name);
            System.out.println("partitions " + described.partitions().size() + " with id "
                    + !described.topicId().equals(org.apache.kafka.common.Uuid.ZERO_UUID));
            System.out.println("nodes " + new TreeSet<>(nodes(admin)));
            produce(settings, name);
            System.out.println("latest " + offsets(admin, name, OffsetSpec.latest()));
            System.out.println("earliest " + offsets(admin, name, OffsetSpec.earliest()));
            System.out.println("at 2000 " + offsets(admin, name, OffsetSpec.forTimestamp(2000)));
            System.out.println("newest " + offsets(admin, name, OffsetSpec.maxTimestamp()));
            admin.deleteTopics(Collections.singleton(name)).all().get();
            System.out.println("listed " + admin.listTopics().names().get().contains(name));
            System.out.println("gone " + refusal(
                    () -> admin.deleteTopics(Collections.singleton(name)).all().get()));
        }
    }

    private static TreeSet<String> nodes(AdminClient admin) throws Exception {
        TreeSet<String> nodes = new TreeSet<>();
        admin.describeCluster().nodes().get().forEach(node -> nodes.add(node.host() + ":" + node.port()));
        return nodes;
    }

    private static void produce(Properties settings, String topic) throws Exception {
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (long time = 1000; time <= 3000; time += 1000) {
                producer.send(new ProducerRecord<>(topic, 1, time, "key", "value")).get();
            }
        }
    }

    private static Map<Integer, Long> offsets(AdminClient admin, String topic, OffsetSpec asked) throws Exception {
        Map<Integer, Long> offsets = new TreeMap<>();
        for (int partition = 0; partition < 2; partition++) {
            TopicPartition key = new TopicPartition(topic, partition);
            offsets.put(partition,
                    admin.listOffsets(Collections.singletonMap(key, asked)).partitionResult(key).get().offset());
        }
        return offsets;
    }

    private interface Step {
        void run() throws Exception;
    }

    private static String refusal(Step step) throws Exception {
        try {
            step.run();
            return "nothing";
        } catch (ExecutionException error) {
            return error.getCause().getClass().getSimpleName();
        }
    }

    private Topics() {}
}
