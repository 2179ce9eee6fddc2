import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/**
 * Answers each line on stdin (action, argument, topic, group, with tabs between) with a line of JSON.
 *
 * <p>Arguments: bootstrap servers, then the classes whose static methods are the actions: those that can be compiled
 * with the release of the client.
 */
public final class Driver {
    static final int COUNT = 10;
    static final int MEGABYTE = 1_000_000;
    static final int PASSED = 5;
    static final long WAIT_MS = 20_000;

    static String bootstrap;

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        System.setOut(System.err);
        bootstrap = arguments[0];
        List<Class<?>> classes = new ArrayList<>();
        for (int i = 1; i < arguments.length; i++) {
            classes.add(Class.forName(arguments[i]));
        }
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            String argument = words[1].isEmpty() ? words[3] : words[1];
            answers.println(json(answer(classes, camelCase(words[0]), words[2], argument)));
        }
        Runtime.getRuntime().halt(0);
    }

    private static Object answer(List<Class<?>> classes, String action, String topic, String argument)
            throws Exception {
        for (Class<?> each : classes) {
            Method method;
            try {
                method = each.getDeclaredMethod(action, String.class, String.class);
            } catch (NoSuchMethodException elsewhere) {
                continue;
            }
            try {
                Object answered = method.invoke(null, topic, argument);
                return answered == null ? Collections.emptyMap() : answered;
            } catch (InvocationTargetException error) {
                error.getCause().printStackTrace();
                return Collections.singletonMap("error", causes(error.getCause()));
            }
        }
        return Collections.singletonMap("unknown", action);
    }

    private static String causes(Throwable error) {
        String cause = error.getCause() == null ? "" : "; " + causes(error.getCause());
        return error + cause;
    }

    private static String camelCase(String action) {
        StringBuilder name = new StringBuilder();
        for (String word : action.split("-")) {
            boolean first = name.length() == 0;
            name.append(first ? word : Character.toUpperCase(word.charAt(0)) + word.substring(1));
        }
        return name.toString();
    }

    static Properties settings(String... more) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        for (int i = 0; i < more.length; i += 2) {
            settings.put(more[i], more[i + 1]);
        }
        return settings;
    }

    static byte[] key(int number) {
        return ("key-" + number).getBytes(StandardCharsets.UTF_8);
    }

    static byte[] value(int number) {
        StringBuilder value = new StringBuilder();
        for (int i = 0; i < 20; i++) {
            value.append("value-").append(number).append(';');
        }
        return value.toString().getBytes(StandardCharsets.UTF_8);
    }

    static long timestampMs(int number) {
        return 1_700_000_000_000L + number * 1000;
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }

    /** Wait for what a future is to bring; the exception is the cause of its failure. */
    static <T> T get(java.util.concurrent.Future<T> future) throws Exception {
        return future.get(WAIT_MS, java.util.concurrent.TimeUnit.MILLISECONDS);
    }

    /** Call a method by its name, whose parameter types differ between releases. */
    static Object call(Object target, String name, Object... arguments) throws Exception {
        for (Method method : target.getClass().getMethods()) {
            Class<?>[] types = method.getParameterTypes();
            boolean fits = method.getName().equals(name) && types.length == arguments.length;
            for (int i = 0; fits && i < types.length; i++) {
                fits = types[i].isInstance(arguments[i]) || types[i] == long.class && arguments[i] instanceof Long;
            }
            if (fits) {
                try {
                    return method.invoke(target, arguments);
                } catch (InvocationTargetException error) {
                    throw error.getCause() instanceof Exception ? (Exception) error.getCause() : error;
                }
            }
        }
        throw new NoSuchMethodException(name);
    }

    private static String json(Object content) {
        StringBuilder json = new StringBuilder();
        if (content instanceof Map) {
            ((Map<?, ?>) content).forEach((name, each) ->
                    json.append(json.length() == 0 ? "" : ",").append(json(name)).append(':').append(json(each)));
            return "{" + json + "}";
        }
        if (content instanceof Iterable) {
            ((Iterable<?>) content).forEach(each -> json.append(json.length() == 0 ? "" : ",").append(json(each)));
            return "[" + json + "]";
        }
        return content instanceof String ? quoted((String) content) : String.valueOf(content);
    }

    private static String quoted(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char each : text.toCharArray()) {
            boolean plain = each >= ' ' && each != '"' && each != '\\' && each < 127;
            quoted.append(plain ? String.valueOf(each) : String.format("\\u%04x", (int) each));
        }
        return quoted.append('"').toString();
    }

    private Driver() {}
}
