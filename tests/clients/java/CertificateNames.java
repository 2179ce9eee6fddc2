import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Scanner;
import javax.security.auth.x500.X500Principal;

/** Prints each encoded name that is read as Kafka takes it from a certificate; both in hex and one a line. */
public final class CertificateNames {
    public static void main(String[] arguments) {
        HexFormat hex = HexFormat.of();
        try (Scanner input = new Scanner(System.in)) {
            while (input.hasNextLine()) {
                String name = new X500Principal(hex.parseHex(input.nextLine())).getName();
                System.out.println(hex.formatHex(name.getBytes(StandardCharsets.UTF_8)));
            }
        }
    }
}
