import java.util.Collections;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.common.config.ConfigResource;

/** AlterConfigs, which replaces all of a resource's values, in releases before 2.3. */
final class AlteringOnce {
    static Object alterConfigs(String topic, String group) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        Config config = new Config(Collections.singleton(Administering.retention()));
        try (AdminClient admin = Administering.admin()) {
            Driver.get(admin.alterConfigs(Collections.singletonMap(resource, config)).all());
        }
        return null;
    }

    private AlteringOnce() {}
}
