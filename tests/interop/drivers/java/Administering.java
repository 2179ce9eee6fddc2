import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;

/** What the admin client can do in all releases from 0.11 on. */
final class Administering {
    static Object createTopic(String topic, String group) throws Exception {
        NewTopic created = new NewTopic(topic, 3, (short) 1);
        created.configs(Collections.singletonMap("max.message.bytes", "500000"));
        try (AdminClient admin = admin()) {
            Driver.get(admin.createTopics(Collections.singleton(created)).all());
        }
        return null;
    }

    static Object describeCluster(String topic, String group) throws Exception {
        List<Object> brokers = new ArrayList<>();
        try (AdminClient admin = admin()) {
            for (Node node : Driver.get(admin.describeCluster().nodes())) {
                brokers.add(node.host() + ":" + node.port());
            }
        }
        return Collections.singletonMap("brokers", brokers);
    }

    static Object describeConfigs(String topic, String group) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        try (AdminClient admin = admin()) {
            Config config = Driver.get(admin.describeConfigs(Collections.singleton(resource)).all()).get(resource);
            return Collections.singletonMap("retention.ms", config.get("retention.ms").value());
        }
    }

    static Object deleteTopic(String topic, String group) throws Exception {
        try (AdminClient admin = admin()) {
            Object deleted = Driver.call(admin, "deleteTopics", Collections.singleton(topic));
            Driver.get((org.apache.kafka.common.KafkaFuture<?>) Driver.call(deleted, "all"));
        }
        return null;
    }

    static Object describeAcls(String topic, String group) throws Exception {
        try (AdminClient admin = admin()) {
            List<AclBinding> acls = new ArrayList<>(Driver.get(admin.describeAcls(AclBindingFilter.ANY).values()));
            return Collections.singletonMap("acls", acls.size());
        }
    }

    static AdminClient admin() {
        return AdminClient.create(Driver.settings());
    }

    static ConfigEntry retention() {
        return new ConfigEntry("retention.ms", "654321");
    }

    private Administering() {}
}
