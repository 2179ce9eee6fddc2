import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * Reads lines of a type and a value, and makes a configuration with each value of each broker key of that type.
 *
 * <p>Prints the key, the value, and whether it is taken or the reason why not.
 */
public class BrokerValues {
    private static final Map<String, String> BASE = Map.of(
            "process.roles", "broker,controller",
            "node.id", "1",
            "controller.quorum.voters", "1@127.0.0.1:9093",
            "listeners", "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
            "controller.listener.names", "CONTROLLER",
            "log.dirs", "/nowhere");

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        Map<String, List<String>> values = new HashMap<>();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split("\t", 2);
            values.computeIfAbsent(parts[0], type -> new ArrayList<>()).add(parts[1]);
        }
        for (ConfigDef.ConfigKey key : KafkaConfig.configDef().configKeys().values()) {
            for (String value : values.getOrDefault(key.type.toString(), List.of())) {
                out.println(key.name + "\t" + value + "\t" + reason(key.name, value));
            }
        }
        out.flush();
    }

    private static String reason(String key, String value) {
        Properties properties = new Properties();
        properties.putAll(BASE);
        properties.setProperty(key, value);
        try {
            KafkaConfig config = KafkaConfig.fromProps(properties, false);
            // As the start of a broker does for the defaults of topics.
            LogConfig.validateBrokerLogConfigValues(
                    config.extractLogConfigMap(), config.remoteLogManagerConfig().isRemoteStorageSystemEnabled());
            new LogConfig(config.extractLogConfigMap());
            return "taken";
        } catch (RuntimeException | ExceptionInInitializerError error) {
            return String.valueOf(error.getMessage()).replaceAll("\\s+", " ");
        }
    }
}
