import java.util.Collections;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.DeletedRecords;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;

/** Deleting records, from 1.1 on. */
final class Trimming {
    static Object deleteRecords(String topic, String group) throws Exception {
        TopicPartition partition = new TopicPartition(topic, 0);
        try (AdminClient admin = Administering.admin()) {
            KafkaFuture<DeletedRecords> deleted =
                    admin.deleteRecords(Collections.singletonMap(partition, RecordsToDelete.beforeOffset(4)))
                            .lowWatermarks().get(partition);
            return Collections.singletonMap("low", Driver.get(deleted).lowWatermark());
        }
    }

    private Trimming() {}
}
