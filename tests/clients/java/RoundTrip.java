import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Produces the records on its input to partition 0 of a topic and reads them back, for clients from 0.11 on.
 *
 * <p>Arguments: bootstrap servers, topic, then key=value settings of the producer; after "--" another topic with
 * its settings, and so on. Each gets all records, and ends with a line that names it. A line in and out is a record:
 * timestamp, key, value and headers, separated by spaces; bytes in hexadecimal, "null" for null, a header as
 * name=value. Before each record read back comes the offset that its producer was told and the one it was read at.
 */
public final class RoundTrip {
    private static final long DEADLINE_MS = 180_000;

    public static void main(String[] arguments) throws Exception {
        List<String> lines = new ArrayList<>();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            lines.add(line);
        }
        List<String> run = new ArrayList<>();
        for (int i = 1; i <= arguments.length; i++) {
            if (i < arguments.length && !arguments[i].equals("--")) {
                run.add(arguments[i]);
                continue;
            }
            System.out.print(roundTrip(arguments[0], run, lines));
            System.out.println("end of " + run.get(0));
            run.clear();
        }
    }

    private static String roundTrip(String bootstrap, List<String> run, List<String> lines) throws Exception {
        TopicPartition partition = new TopicPartition(run.get(0), 0);
        List<ProducerRecord<byte[], byte[]>> records = readRecords(partition, lines);
        List<Long> offsets = produce(bootstrap, run, records);
        StringBuilder told = new StringBuilder();
        for (ConsumerRecord<byte[], byte[]> record : consume(bootstrap, partition, records.size())) {
            told.append(offsets.get((int) record.offset())).append(' ').append(record.offset()).append(' ');
            told.append(record.timestamp()).append(' ').append(hex(record.key())).append(' ');
            told.append(hex(record.value()));
            for (Header header : record.headers()) {
                told.append(' ').append(hex(header.key().getBytes(StandardCharsets.UTF_8)));
                told.append('=').append(hex(header.value()));
            }
            told.append('\n');
        }
        return told.toString();
    }

    private static List<ProducerRecord<byte[], byte[]>> readRecords(
            TopicPartition partition, List<String> lines) {
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (String line : lines) {
            String[] words = line.split(" ", -1);
            Headers headers = new RecordHeaders();
            for (int i = 3; i < words.length; i++) {
                String[] sides = words[i].split("=", 2);
                headers.add(new String(bytes(sides[0]), StandardCharsets.UTF_8), bytes(sides[1]));
            }
            records.add(new ProducerRecord<>(partition.topic(), partition.partition(), Long.valueOf(words[0]),
                    bytes(words[1]), bytes(words[2]), headers));
        }
        return records;
    }

    private static List<Long> produce(
            String bootstrap, List<String> run, List<ProducerRecord<byte[], byte[]>> records) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        for (String setting : run.subList(1, run.size())) {
            String[] sides = setting.split("=", 2);
            settings.put(sides[0], sides[1]);
        }
        List<Long> offsets = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (ProducerRecord<byte[], byte[]> record : records) {
                sent.add(producer.send(record));
            }
            for (Future<RecordMetadata> each : sent) {
                offsets.add(each.get(DEADLINE_MS, TimeUnit.MILLISECONDS).offset());
            }
        }
        return offsets;
    }

    private static List<ConsumerRecord<byte[], byte[]>> consume(
            String bootstrap, TopicPartition partition, int count) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("enable.auto.commit", "false");
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(Collections.singletonList(partition));
            consumer.seekToBeginning(Collections.singletonList(partition));
            long deadline = System.currentTimeMillis() + DEADLINE_MS;
            while (records.size() < count && System.currentTimeMillis() < deadline) {
                poll(consumer).records(partition).forEach(records::add);
            }
        }
        return records;
    }

    /** Clients before 2.0 take milliseconds, those from 4.0 on only a Duration. */
    @SuppressWarnings("unchecked")
    private static ConsumerRecords<byte[], byte[]> poll(KafkaConsumer<byte[], byte[]> consumer) throws Exception {
        Object polled;
        try {
            Object wait = java.time.Duration.ofMillis(500);
            polled = KafkaConsumer.class.getMethod("poll", java.time.Duration.class).invoke(consumer, wait);
        } catch (NoSuchMethodException older) {
            polled = KafkaConsumer.class.getMethod("poll", long.class).invoke(consumer, 500L);
        }
        return (ConsumerRecords<byte[], byte[]>) polled;
    }

    private static byte[] bytes(String hex) {
        if (hex.equals("null")) {
            return null;
        }
        byte[] bytes = new byte[hex.length() / 2];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        }
        return bytes;
    }

    private static String hex(byte[] bytes) {
        if (bytes == null) {
            return "null";
        }
        StringBuilder hex = new StringBuilder();
        for (byte each : bytes) {
            hex.append(Character.forDigit(each >> 4 & 15, 16)).append(Character.forDigit(each & 15, 16));
        }
        return hex.toString();
    }

    private RoundTrip() {}
}
