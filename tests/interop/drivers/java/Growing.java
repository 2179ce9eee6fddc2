import java.util.Collections;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.DeletedRecords;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;

/** Partitions and records, from 1.1 on. */
final class Growing {
    static Object addPartitions(String topic, String group) throws Exception {
        try (AdminClient admin = Administering.admin()) {
            Driver.get(admin.createPartitions(Collections.singletonMap(topic, NewPartitions.increaseTo(4))).all());
        }
        return null;
    }

    static Object deleteRecords(String topic, String group) throws Exception {
        TopicPartition partition = new TopicPartition(topic, 0);
        try (AdminClient admin = Administering.admin()) {
            KafkaFuture<DeletedRecords> deleted =
                    admin.deleteRecords(Collections.singletonMap(partition, RecordsToDelete.beforeOffset(4)))
                            .lowWatermarks().get(partition);
            return Collections.singletonMap("low", Driver.get(deleted).lowWatermark());
        }
    }

    private Growing() {}
}
