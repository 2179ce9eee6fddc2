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
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Copies one topic to another in transactions, together with the offsets up to which it read. It is one of several
 * members of a group, and ends with its input.
 *
 * <p>Arguments: bootstrap servers, input topic, output topic, group, transactional id.
 */
public final class Worker {
    private static final Duration POLL = Duration.ofMillis(100);
    private static volatile boolean ended = false;

    private final KafkaConsumer<byte[], byte[]> consumer;
    private final KafkaProducer<byte[], byte[]> producer;
    private final String output;

    private Worker(Properties common, String group, String transactionalId, String output) {
        Properties reads = new Properties();
        reads.putAll(common);
        reads.put("group.id", group);
        reads.put("auto.offset.reset", "earliest");
        reads.put("enable.auto.commit", "false");
        reads.put("isolation.level", "read_committed");
        reads.put("session.timeout.ms", "1500");
        reads.put("heartbeat.interval.ms", "300");
        reads.put("max.poll.records", "20");
        Properties writes = new Properties();
        writes.putAll(common);
        writes.put("transactional.id", transactionalId);
        writes.put("transaction.timeout.ms", "10000");
        this.output = output;
        producer = new KafkaProducer<>(writes, new ByteArraySerializer(), new ByteArraySerializer());
        consumer = new KafkaConsumer<>(reads, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    public static void main(String[] arguments) throws Exception {
        Thread listener = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    continue;
                }
            } catch (java.io.IOException closed) {
                System.err.println(closed);
            }
            ended = true;
        });
        listener.setDaemon(true);
        listener.start();
        Properties common = new Properties();
        common.put("bootstrap.servers", arguments[0]);
        common.put("reconnect.backoff.max.ms", "300");
        Worker worker = new Worker(common, arguments[3], arguments[4], arguments[2]);
        worker.producer.initTransactions();
        worker.consumer.subscribe(Collections.singletonList(arguments[1]));
        while (!ended) {
            worker.step();
        }
        worker.consumer.close();
        worker.producer.close();
    }

    private void step() {
        ConsumerRecords<byte[], byte[]> records = consumer.poll(POLL);
        if (records.isEmpty()) {
            return;
        }
        try {
            transact(records);
        } catch (ProducerFencedException | OutOfOrderSequenceException | AuthorizationException fatal) {
            throw fatal;
        } catch (KafkaException abortable) {
            producer.abortTransaction();
            rewind();
        }
    }

    private void transact(ConsumerRecords<byte[], byte[]> records) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        producer.beginTransaction();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            producer.send(new ProducerRecord<>(output, record.partition(), null, record.value()));
            offsets.put(new TopicPartition(record.topic(), record.partition()),
                    new OffsetAndMetadata(record.offset() + 1));
        }
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        producer.commitTransaction();
    }

    /** Back to what is committed, where the next transaction has to begin. */
    private void rewind() {
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
        committed.forEach((partition, offset) -> consumer.seek(partition, offset == null ? 0 : offset.offset()));
    }
}
