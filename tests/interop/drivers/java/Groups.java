import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** Groups and incremental changes of configuration, from 2.3 on. */
final class Groups {
    static Object alterConfigs(String topic, String group) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        AlterConfigOp set = new AlterConfigOp(Administering.retention(), AlterConfigOp.OpType.SET);
        try (AdminClient admin = Administering.admin()) {
            Driver.get(admin.incrementalAlterConfigs(
                    Collections.singletonMap(resource, Collections.singleton(set))).all());
        }
        return null;
    }

    static Object listGroups(String topic, String group) throws Exception {
        try (AdminClient admin = Administering.admin()) {
            boolean listed = Driver.get(admin.listConsumerGroups().all()).stream()
                    .anyMatch(each -> each.groupId().equals(group));
            return Collections.singletonMap("listed", listed);
        }
    }

    static Object describeGroup(String topic, String group) throws Exception {
        Map<String, Object> answer = new LinkedHashMap<>();
        try (AdminClient admin = Administering.admin()) {
            ConsumerGroupDescription described =
                    Driver.get(admin.describeConsumerGroups(Collections.singleton(group)).all()).get(group);
            String state = String.valueOf(Driver.call(described, stateMethod()));
            answer.put("state", state.toLowerCase());
            answer.put("members", described.members().size());
        }
        return answer;
    }

    private static String stateMethod() {
        boolean newer = Arrays.stream(ConsumerGroupDescription.class.getMethods())
                .anyMatch(method -> method.getName().equals("groupState"));
        return newer ? "groupState" : "state";
    }

    static Object listGroupOffsets(String topic, String group) throws Exception {
        try (AdminClient admin = Administering.admin()) {
            KafkaFuture<Map<TopicPartition, OffsetAndMetadata>> offsets =
                    admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata();
            return Collections.singletonMap("offset", Driver.get(offsets).get(new TopicPartition(topic, 0)).offset());
        }
    }

    static Object deleteGroup(String topic, String group) throws Exception {
        try (AdminClient admin = Administering.admin()) {
            Driver.get(admin.deleteConsumerGroups(Collections.singleton(group)).all());
        }
        return null;
    }

    private Groups() {}
}
