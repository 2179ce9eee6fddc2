import java.time.Duration;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Copies partition 0 of one topic to another in transactions, each record once, up to an offset; every fourth
 * transaction is aborted and done again. Prints how many were committed and aborted.
 *
 * <p>Arguments: bootstrap servers, input topic, output topic, group, transactional id, end offset.
 */
public final class Pipeline {
    public static void main(String[] arguments) throws Exception {
        long end = Long.parseLong(arguments[5]);
        TopicPartition input = new TopicPartition(arguments[1], 0);
        int committed = 0;
        int aborted = 0;
        try (KafkaConsumer<String, String> consumer = consumer(arguments[0], arguments[3]);
                KafkaProducer<String, String> producer = producer(arguments[0], arguments[4])) {
            producer.initTransactions();
            consumer.assign(Collections.singletonList(input));
            while (consumer.position(input) < end) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
                if (records.isEmpty()) {
                    continue;
                }
                long first = records.records(input).get(0).offset();
                producer.beginTransaction();
                for (ConsumerRecord<String, String> record : records) {
                    producer.send(new ProducerRecord<>(arguments[2], 0, record.key(), record.value()));
                }
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                offsets.put(input, new OffsetAndMetadata(consumer.position(input)));
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                if ((committed + aborted) % 4 == 3) {
                    producer.abortTransaction();
                    aborted++;
                    consumer.seek(input, first);
                } else {
                    producer.commitTransaction();
                    committed++;
                }
            }
        }
        System.out.println("committed " + committed + " aborted " + aborted);
    }

    private static KafkaConsumer<String, String> consumer(String bootstrap, String group) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", group);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("isolation.level", "read_committed");
        settings.put("max.poll.records", "20");
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    private static KafkaProducer<String, String> producer(String bootstrap, String transactionalId) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", transactionalId);
        settings.put("max.block.ms", "20000");
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }
}
