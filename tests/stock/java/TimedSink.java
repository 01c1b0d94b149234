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
 * time (ms since the epoch), task, partition, first and last offset. With "rate", a task takes at most so many
 * records a second, and never catches up. Both are optional.
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
        private long everyNs;
        private long dueNs;

        @Override
        public void start(Map<String, String> config) {
            journal = Journal.ofTask(config);
            file = config.get("puts");
            task = config.get("task");
            everyNs = config.containsKey("rate") ? 1_000_000_000L / Long.parseLong(config.get("rate")) : 0;
            dueNs = System.nanoTime();
            journal.started();
        }

        @Override
        public void put(Collection<SinkRecord> records) {
            await(records.size());
            if (file != null) {
                write(records);
            }
        }

        private void await(int records) {
            dueNs = Math.max(dueNs, System.nanoTime()) + records * everyNs;
            try {
                Thread.sleep(Math.max(0, dueNs - System.nanoTime()) / 1_000_000);
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
        }

        private void write(Collection<SinkRecord> records) {
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
