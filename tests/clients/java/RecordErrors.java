import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Produces one batch with a record for each further argument, without a key if that is "null", and prints for each
 * record "ok" or the exception that the client gets. Arguments: bootstrap servers, topic, keys.
 */
public final class RecordErrors {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("linger.ms", "60000");
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int index = 2; index < arguments.length; index++) {
                String key = arguments[index].equals("null") ? null : arguments[index];
                sent.add(producer.send(new ProducerRecord<>(arguments[1], key, "value")));
            }
            producer.flush();
            for (Future<RecordMetadata> record : sent) {
                System.out.println(outcome(record));
            }
        }
    }

    private static String outcome(Future<RecordMetadata> record) throws Exception {
        try {
            record.get(30, TimeUnit.SECONDS);
            return "ok";
        } catch (ExecutionException error) {
            return error.getCause().getClass().getSimpleName() + ": " + error.getCause().getMessage();
        }
    }

    private RecordErrors() {}
}
