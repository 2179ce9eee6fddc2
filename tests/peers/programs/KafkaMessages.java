import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.utils.internals.ImplicitLinkedHashCollection;

/**
 * Encodes and decodes messages with the classes that Apache Kafka's build generates.
 *
 * Every line of the input is a JSON array, and every line of the output answers it, or is "error: " and why:
 *   ["write", class, version, value]  the encoding, in hex
 *   ["read", class, version, hex]     the value
 *   ["fields", class]                 the names of the fields of the class and of those within it
 *   ["types", class]                  the constants of an enumeration of record types, by number
 */
public final class KafkaMessages {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            out.println(answered(JSON.readTree(line)));
        }
        out.flush();
    }

    private static String answered(JsonNode request) {
        try {
            return answer(request);
        } catch (InvocationTargetException error) {
            return "error: " + error.getCause();
        } catch (Exception error) {
            return "error: " + error;
        }
    }

    private static String answer(JsonNode request) throws Exception {
        String name = request.get(1).asText();
        Class<?> type = Class.forName(name);
        return switch (request.get(0).asText()) {
            case "write" -> write(type, (short) request.get(2).asInt(), request.get(3));
            case "read" -> read(type, (short) request.get(2).asInt(), request.get(3).asText());
            case "fields" -> JSON.writeValueAsString(fields(type));
            default -> JSON.writeValueAsString(types(type));
        };
    }

    private static Class<?> converter(Class<?> type) throws Exception {
        return Class.forName(type.getName() + "JsonConverter");
    }

    private static String write(Class<?> type, short version, JsonNode value) throws Exception {
        var read = converter(type).getMethod("read", JsonNode.class, short.class);
        var message = (Message) read.invoke(null, value, version);
        var buffer = MessageUtil.toByteBufferAccessor(message, version).buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    private static String read(Class<?> type, short version, String hex) throws Exception {
        var message = (Message) type.getConstructor().newInstance();
        var buffer = java.nio.ByteBuffer.wrap(HexFormat.of().parseHex(hex));
        message.read(new ByteBufferAccessor(buffer), version);
        if (buffer.hasRemaining()) {
            throw new IllegalArgumentException(buffer.remaining() + " bytes are left over");
        }
        return JSON.writeValueAsString(
            converter(type).getMethod("write", type, short.class).invoke(null, message, version));
    }

    private static TreeMap<String, TreeSet<String>> fields(Class<?> type) {
        var found = new TreeMap<String, TreeSet<String>>();
        var names = new TreeSet<String>();
        for (Field field : type.getDeclaredFields()) {
            if (!Modifier.isStatic(field.getModifiers()) && !field.getName().startsWith("_")) {
                names.add(field.getName());
            }
        }
        if (ImplicitLinkedHashCollection.Element.class.isAssignableFrom(type)) {
            names.remove("prev");
            names.remove("next");
        }
        found.put(type.getSimpleName(), names);
        for (Class<?> inner : type.getDeclaredClasses()) {
            if (Message.class.isAssignableFrom(inner)) {
                found.putAll(fields(inner));
            }
        }
        return found;
    }

    private static TreeMap<Short, String> types(Class<?> type) throws Exception {
        var found = new TreeMap<Short, String>();
        for (Object constant : type.getEnumConstants()) {
            found.put((Short) type.getMethod("id").invoke(constant), constant.toString());
        }
        return found;
    }
}
