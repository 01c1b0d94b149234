package cooperator.stock;

import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;

/**
 * Keeps no values: appends a line for each partition of a batch to the file "puts" (benchmarks/clusters/sinks.py):
 * time (ms since the epoch), task, partition, first and last offset.
 */
public class TimedSink extends SinkConnector {
    private Map<String, String> config;
    private Journal journal;

    @Override
    public void start(Map<String, String> config) {
        this.config = config;
        journal = Journal.ofInstance(config);
        journal.started();
    }

    @Override
    public Class<? extends Task> taskClass() {
        return Times.class;
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

    public static class Times extends SinkTask {
        private Journal journal;
        private String file;
        private String task;

        @Override
        public void start(Map<String, String> config) {
            journal = Journal.ofTask(config);
            file = config.get("puts");
            task = config.get("task");
            journal.started();
        }

        @Override
        public void put(Collection<SinkRecord> records) {
            Map<Integer, long[]> offsets = new TreeMap<>();
            for (SinkRecord record : records) {
                long offset = record.kafkaOffset();
                offsets.computeIfAbsent(record.kafkaPartition(), any -> new long[] {offset, offset})[1] = offset;
            }
            long now = System.currentTimeMillis();
            StringBuilder lines = new StringBuilder();
            offsets.forEach((partition, range) -> lines
                .append(lines.length() == 0 ? "" : "\n")
                .append(now).append(' ').append(task).append(' ').append(partition)
                .append(' ').append(range[0]).append(' ').append(range[1]));
            if (lines.length() > 0) {
                Journal.append(file, lines.toString());
            }
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
