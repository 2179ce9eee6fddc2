import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.util.HexFormat;
import java.util.concurrent.atomic.AtomicBoolean;
import kafka.coordinator.transaction.TransactionStateManager;
import org.apache.kafka.coordinator.group.GroupCoordinatorService;
import sun.misc.Unsafe;

/**
 * For each name on stdin, as hexadecimal UTF-16 code units: the partition that Kafka's group coordinator and its
 * transaction coordinator keep that name's state in. The argument is the number of partitions.
 */
public class StatePartitions {
    public static void main(String[] arguments) throws Exception {
        int partitions = Integer.parseInt(arguments[0]);
        Field theUnsafe = Unsafe.class.getDeclaredField("theUnsafe");
        theUnsafe.setAccessible(true);
        Unsafe unsafe = (Unsafe) theUnsafe.get(null);
        // Without their constructors: these want a whole broker, and the function needs a number.
        var groups = (GroupCoordinatorService) unsafe.allocateInstance(GroupCoordinatorService.class);
        set(groups, "isActive", new AtomicBoolean(true));
        set(groups, "numPartitions", partitions);
        var transactions = (TransactionStateManager) unsafe.allocateInstance(TransactionStateManager.class);
        set(transactions, "transactionTopicPartitionCount", partitions);
        StringBuilder told = new StringBuilder();
        try (var names = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = names.readLine(); line != null; line = names.readLine()) {
                String name = decode(HexFormat.of().parseHex(line));
                told.append(groups.partitionFor(name)).append(' ').append(transactions.partitionFor(name)).append('\n');
            }
        }
        System.out.print(told);
    }

    private static String decode(byte[] units) {
        char[] characters = new char[units.length / 2];
        for (int index = 0; index < characters.length; index++) {
            characters[index] = (char) ((units[2 * index] & 0xff) << 8 | units[2 * index + 1] & 0xff);
        }
        return new String(characters);
    }

    private static void set(Object owner, String name, Object value) throws Exception {
        Field field = owner.getClass().getDeclaredField(name);
        field.setAccessible(true);
        field.set(owner, value);
    }
}
