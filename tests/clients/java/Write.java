import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Produces one record and prints its offset, or the name of the exception that the client gets, for clients from
 * 0.9 on. Arguments: bootstrap servers, topic.
 */
public final class Write {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            ProducerRecord<String, String> record = new ProducerRecord<>(arguments[1], "key", "value");
            System.out.println(producer.send(record).get(30, TimeUnit.SECONDS).offset());
        } catch (ExecutionException error) {
            System.out.println(error.getCause().getClass().getSimpleName() + ": " + error.getCause().getMessage());
        }
    }

    private Write() {}
}
