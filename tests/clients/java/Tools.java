import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs one of Kafka's tools for each line on stdin (a class and its arguments, with tabs between) in one process.
 * What each prints follows a line of its number, "== 0"; a tool that ends the process or fails prints "== failed".
 * With an argument, that is a line after what each prints, so that a program knows when to give the next one.
 */
public class Tools {
    private static Integer ended;

    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        int number = 0;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String told = run(line.split("\t"));
            out.write(("== " + number++ + "\n" + told).getBytes(StandardCharsets.UTF_8));
            out.println(arguments.length == 0 ? "" : "\n" + arguments[0]);
            out.flush();
        }
        out.flush();
        Runtime.getRuntime().halt(0);
    }

    /** Run a tool, a class and its arguments, and return what it printed, after "== failed" if it did. */
    static String run(String[] words) throws Exception {
        Exit.setExitProcedure((status, message) -> {
            // A tool may catch this and end once more: the first time counts, and nothing is told after it.
            if (ended == null) {
                ended = status;
                System.setOut(new PrintStream(OutputStream.nullOutputStream()));
            }
            throw new IllegalStateException("ended");
        });
        PrintStream out = System.out;
        var told = new ByteArrayOutputStream();
        System.setOut(new PrintStream(told, true, StandardCharsets.UTF_8));
        String failure = "";
        ended = null;
        try {
            Class.forName(words[0])
                    .getMethod("main", String[].class)
                    .invoke(null, (Object) Arrays.copyOfRange(words, 1, words.length));
        } catch (java.lang.reflect.InvocationTargetException error) {
            if (ended == null || ended != 0) {
                failure = "== failed: " + error.getCause() + " " + ended + "\n";
            }
        } finally {
            System.setOut(out);
        }
        return failure + told.toString(StandardCharsets.UTF_8);
    }
}
