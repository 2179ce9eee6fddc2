import java.util.HexFormat;
import java.util.Scanner;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;

/** Prints the partition of each key that is read, in hex and one a line, among as many as the argument says. */
public final class Partitions {
    public static void main(String[] arguments) {
        int partitions = Integer.parseInt(arguments[0]);
        StringBuilder found = new StringBuilder();
        try (Scanner input = new Scanner(System.in)) {
            while (input.hasNextLine()) {
                byte[] key = HexFormat.of().parseHex(input.nextLine());
                found.append(BuiltInPartitioner.partitionForKey(key, partitions)).append('\n');
            }
        }
        System.out.print(found);
    }
}
