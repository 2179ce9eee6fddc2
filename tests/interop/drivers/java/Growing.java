import java.util.Collections;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.NewPartitions;

/** More partitions, from 1.0 on. */
final class Growing {
    static Object addPartitions(String topic, String group) throws Exception {
        try (AdminClient admin = Administering.admin()) {
            Driver.get(admin.createPartitions(Collections.singletonMap(topic, NewPartitions.increaseTo(4))).all());
        }
        return null;
    }

    private Growing() {}
}
