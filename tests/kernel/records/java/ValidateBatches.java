import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.requests.ProduceResponse;
import org.apache.kafka.common.utils.internals.BufferSupplier;
import org.apache.kafka.common.utils.internals.CloseableIterator;
import org.apache.kafka.common.utils.internals.PrimitiveRef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;
import org.apache.kafka.storage.internals.log.RecordValidationException;

/**
 * What Apache Kafka's own classes make of record batches, a line of answer for each line of input.
 *
 * <p>Input: compacted (0 or 1), timestamp type, before.max.ms, after.max.ms, now, the batch in hex. Output, separated
 * by tabs: what the broker's validator says ("ok", "rewritten" or an exception and its message), the max timestamp and
 * attributes that it stored, the record errors as "index=message" between semicolons, then what a consumer's reader
 * says ("ok" or an exception).
 */
public final class ValidateBatches {
    private static final class Clock implements Time {
        private final long now;

        Clock(long now) {
            this.now = now;
        }

        @Override
        public long milliseconds() {
            return now;
        }

        @Override
        public long nanoseconds() {
            return now * 1_000_000;
        }

        @Override
        public void sleep(long ms) {}

        @Override
        public void waitObject(Object object, java.util.function.Supplier<Boolean> condition, long deadline) {}

        @Override
        public org.apache.kafka.common.utils.Timer timer(long timeoutMs) {
            throw new UnsupportedOperationException();
        }
    }

    private static final LogValidator.MetricsRecorder NO_METRICS = new LogValidator.MetricsRecorder() {
        @Override
        public void recordInvalidMagic() {}

        @Override
        public void recordInvalidOffset() {}

        @Override
        public void recordInvalidSequence() {}

        @Override
        public void recordInvalidChecksums() {}

        @Override
        public void recordNoKeyCompactedTopic() {}
    };

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = line.split(" ");
            byte[] batch = HexFormat.of().parseHex(fields[5]);
            String read = read(batch.clone());
            out.append(validate(fields, batch)).append('\t').append(read).append('\n');
        }
        System.out.print(out);
    }

    private static String validate(String[] fields, byte[] bytes) {
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(bytes));
        try {
            MutableRecordBatch batch = records.batches().iterator().next();
            LogValidator validator = new LogValidator(
                    records,
                    new TopicPartition("flights", 3),
                    new Clock(Long.parseLong(fields[4])),
                    batch.compressionType(),
                    Compression.of(batch.compressionType()).build(),
                    fields[0].equals("1"),
                    (byte) 2,
                    TimestampType.forName(fields[1]),
                    Long.parseLong(fields[2]),
                    Long.parseLong(fields[3]),
                    0,
                    AppendOrigin.CLIENT);
            LogValidator.ValidationResult result = validator.validateMessagesAndAssignOffsets(
                    PrimitiveRef.ofLong(0), NO_METRICS, BufferSupplier.NO_CACHING);
            MutableRecordBatch stored = result.validatedRecords().batches().iterator().next();
            String verdict = result.messageSizeMaybeChanged() ? "rewritten" : "ok";
            return verdict + "\t" + stored.maxTimestamp() + "\t" + stored.timestampType() + "\t";
        } catch (RecordValidationException error) {
            List<String> named = new ArrayList<>();
            for (ProduceResponse.RecordError record : error.recordErrors()) {
                named.add(record.batchIndex + "=" + record.message);
            }
            return described(error.invalidException()) + "\t\t\t" + String.join(";", named);
        } catch (Throwable error) {
            return described(error) + "\t\t\t";
        }
    }

    private static String read(byte[] bytes) {
        try {
            MutableRecordBatch batch =
                    MemoryRecords.readableRecords(ByteBuffer.wrap(bytes)).batches().iterator().next();
            batch.ensureValid();
            try (CloseableIterator<Record> records = batch.streamingIterator(BufferSupplier.NO_CACHING)) {
                while (records.hasNext()) {
                    records.next();
                }
            }
            return "ok";
        } catch (Throwable error) {
            return described(error);
        }
    }

    private static String described(Throwable error) {
        return (error.getClass().getSimpleName() + ": " + error.getMessage()).replaceAll("\\s+", " ");
    }

    private ValidateBatches() {}
}
