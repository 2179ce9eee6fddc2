import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;

/** Prints the keys of consumers and producers that are not internal: client, key and default. */
public class ClientKeys {
    public static void main(String[] arguments) {
        print("consumer", ConsumerConfig.configDef());
        print("producer", ProducerConfig.configDef());
    }

    private static void print(String client, ConfigDef keys) {
        for (Map.Entry<String, ConfigDef.ConfigKey> entry : keys.configKeys().entrySet()) {
            ConfigDef.ConfigKey key = entry.getValue();
            if (!key.internalConfig) {
                System.out.println(client + "\t" + key.name + "\t" + key.defaultValue);
            }
        }
    }
}
