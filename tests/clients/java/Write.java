import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Produces two records with each codec and prints their offsets, or the name of the exception that the client gets,
 * for clients from 0.8.2 on. Arguments: bootstrap servers, topic, codecs.
 */
public final class Write {
    public static void main(String[] arguments) throws Exception {
        for (int index = 2; index < arguments.length; index++) {
            Properties settings = new Properties();
            settings.put("bootstrap.servers", arguments[0]);
            settings.put("compression.type", arguments[index]);
            try (KafkaProducer<String, String> producer =
                    new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
                for (String value : new String[] {"first", "second"}) {
                    ProducerRecord<String, String> record =
                        new ProducerRecord<>(arguments[1], arguments[index], value);
                    System.out.println(producer.send(record).get(30, TimeUnit.SECONDS).offset());
                }
            } catch (ExecutionException error) {
                Throwable cause = error.getCause();
                System.out.println(cause.getClass().getSimpleName() + ": " + cause.getMessage());
            }
        }
    }

    private Write() {}
}
