package cooperator.stock;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.ConnectorTransactionBoundaries;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/**
 * Each task writes 0, 1, 2, … as "task:number" to a topic, "rate" a second, and goes on behind its offset.
 * While the file "fails.while" is there it fails as it starts, while "tasks.fail.while" is there its tasks fail.
 */
public class SequenceSource extends SourceConnector {
    private Map<String, String> config;
    private Journal journal;

    @Override
    public void start(Map<String, String> config) {
        this.config = config;
        failIfTold(config, "fails.while");
        journal = Journal.ofInstance(config);
        journal.started();
    }

    private static void failIfTold(Map<String, String> config, String setting) {
        String file = config.get(setting);
        if (file != null && Files.exists(Path.of(file))) {
            throw new ConnectException("told to fail by " + setting);
        }
    }

    @Override
    public Class<? extends Task> taskClass() {
        return Numbers.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int maxTasks) {
        return Tasks.configs(config, maxTasks);
    }

    @Override
    public void stop() {
        if (journal != null) {
            journal.stopped();
        }
    }

    @Override
    public ConfigDef config() {
        return Tasks.ANY;
    }

    @Override
    public String version() {
        return "1";
    }

    @Override
    public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> config) {
        return ExactlyOnceSupport.SUPPORTED;
    }

    @Override
    public ConnectorTransactionBoundaries canDefineTransactionBoundaries(Map<String, String> config) {
        return ConnectorTransactionBoundaries.SUPPORTED;
    }

    public static class Numbers extends SourceTask {
        private static final long TICK_MS = 100;

        private Map<String, String> config;
        private Journal journal;
        private double perTick;
        private double owed;
        private long next;

        @Override
        public void start(Map<String, String> config) {
            this.config = config;
            perTick = Double.parseDouble(config.getOrDefault("rate", "50")) * TICK_MS / 1000;
            Map<String, Object> last = context.offsetStorageReader().offset(partition());
            next = last == null ? 0 : (Long) last.get("number") + 1;
            journal = Journal.ofTask(config);
            journal.started();
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            failIfTold(config, "tasks.fail.while");
            Thread.sleep(TICK_MS);
            List<SourceRecord> records = new ArrayList<>();
            for (owed += perTick; owed >= 1; owed--) {
                records.add(record(next++));
            }
            if (context.transactionContext() != null && !records.isEmpty()) {
                context.transactionContext().commitTransaction();
            }
            return records;
        }

        private SourceRecord record(long number) {
            return new SourceRecord(partition(), Map.of("number", number), config.get("topic"), 0,
                Schema.STRING_SCHEMA, config.get("task"),
                Schema.STRING_SCHEMA, config.get("task") + ":" + number);
        }

        private Map<String, String> partition() {
            return Map.of("task", config.get("task"));
        }

        @Override
        public void stop() {
            if (journal != null) {
                journal.stopped();
            }
        }

        @Override
        public String version() {
            return "1";
        }
    }
}
