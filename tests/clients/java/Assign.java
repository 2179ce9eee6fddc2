import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Scanner;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Prints the assignment of each group that is read, one JSON a line:
 * {"assignor": name, "topics": {topic: [[rack, ...] of each partition]},
 *  "members": {id: {"topics": [...], "rack": rack or null, "owned": [[topic, partition], ...]}}}
 * as {id: [[topic, partition], ...]}.
 */
public final class Assign {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        try (Scanner input = new Scanner(System.in)) {
            while (input.hasNextLine()) {
                System.out.println(JSON.writeValueAsString(assigned(JSON.readTree(input.nextLine()))));
            }
        }
    }

    private static ObjectNode assigned(JsonNode group) {
        ConsumerPartitionAssignor assignor = switch (group.get("assignor").asText()) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            default -> new CooperativeStickyAssignor();
        };
        Map<String, Subscription> members = new HashMap<>();
        group.get("members").fields().forEachRemaining(each -> members.put(each.getKey(), member(each.getValue())));
        ObjectNode found = JSON.createObjectNode();
        assignor.assign(cluster(group.get("topics")), new GroupSubscription(members)).groupAssignment().forEach((id, one) -> {
            ArrayNode partitions = found.putArray(id);
            one.partitions().forEach(part -> partitions.addArray().add(part.topic()).add(part.partition()));
        });
        return found;
    }

    private static Subscription member(JsonNode member) {
        List<String> topics = new ArrayList<>();
        member.get("topics").forEach(each -> topics.add(each.asText()));
        List<TopicPartition> owned = new ArrayList<>();
        member.get("owned").forEach(each -> owned.add(new TopicPartition(each.get(0).asText(), each.get(1).asInt())));
        JsonNode rack = member.get("rack");
        return new Subscription(topics, null, owned, 1, rack.isNull() ? Optional.empty() : Optional.of(rack.asText()));
    }

    private static Cluster cluster(JsonNode topics) {
        Map<String, Node> nodes = new HashMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        topics.fields().forEachRemaining(topic -> {
            int number = 0;
            for (JsonNode racks : topic.getValue()) {
                List<Node> replicas = new ArrayList<>();
                for (JsonNode rack : racks) {
                    replicas.add(nodes.computeIfAbsent(rack.asText(), name -> new Node(nodes.size(), "host", 9092, name)));
                }
                Node[] all = replicas.toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic.getKey(), number++, null, all, all));
            }
        });
        return new Cluster("id", nodes.values(), partitions, Set.of(), Set.of());
    }
}
