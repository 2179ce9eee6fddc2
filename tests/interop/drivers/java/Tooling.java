import java.io.ByteArrayInputStream;
import java.util.Collections;

/** Kafka's command line tools, in this process. */
final class Tooling {
    /** Run a class with arguments, spaces between; TOPIC and BROKER stand for names, lines on stdin follow a bar. */
    static Object tool(String topic, String words) throws Exception {
        String[] parts = words.replace("TOPIC", topic).replace("BROKER", Driver.bootstrap).split(" \\| ", 2);
        System.setIn(new ByteArrayInputStream(Driver.bytes(parts.length > 1 ? parts[1].replace(' ', '\n') : "")));
        String printed = Tools.run(parts[0].split(" "));
        return Collections.singletonMap(printed.startsWith("== failed") ? "error" : "printed", printed);
    }

    private Tooling() {}
}
