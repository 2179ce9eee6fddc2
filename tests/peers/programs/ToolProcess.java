import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs one of Kafka's tools for each line on stdin: a class and its arguments, with tabs between.
 * The answer is a line with the exit status and the bytes of output and errors, and then these.
 */
public class ToolProcess {
    private static Integer ended;

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            var output = new ByteArrayOutputStream();
            var errors = new ByteArrayOutputStream();
            int status = run(line.split("\t", -1), output, errors);
            answers.print(status + " " + output.size() + " " + errors.size() + "\n");
            output.writeTo(answers);
            errors.writeTo(answers);
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static int run(String[] words, OutputStream output, OutputStream errors) throws Exception {
        Exit.setExitProcedure((status, message) -> {
            // A tool may catch this and end once more: the first time counts, and nothing is printed after it.
            if (ended == null) {
                if (message != null) {
                    System.err.println(message);
                }
                ended = status;
                System.setOut(new PrintStream(OutputStream.nullOutputStream()));
                System.setErr(new PrintStream(OutputStream.nullOutputStream()));
            }
            throw new IllegalStateException("ended");
        });
        PrintStream out = System.out;
        PrintStream err = System.err;
        var toolsErr = new PrintStream(errors, true, StandardCharsets.UTF_8);
        System.setOut(new PrintStream(output, true, StandardCharsets.UTF_8));
        System.setErr(toolsErr);
        ended = null;
        try {
            Class.forName(words[0])
                    .getMethod("main", String[].class)
                    .invoke(null, (Object) Arrays.copyOfRange(words, 1, words.length));
        } catch (InvocationTargetException error) {
            if (ended == null) {
                error.getCause().printStackTrace(toolsErr);
                ended = 1;
            }
        } finally {
            System.setOut(out);
            System.setErr(err);
        }
        return ended == null ? 0 : ended;
    }
}
