package cooperator.stock;

import java.nio.file.Path;
import java.util.Collection;
import java.util.List;
import java.util.Map;

import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;

/** Appends each value to a file of its task's incarnation in the folder "into". */
public class SequenceSink extends SinkConnector {
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
        return Lines.class;
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

    public static class Lines extends SinkTask {
        private Journal journal;
        private String file;

        @Override
        public void start(Map<String, String> config) {
            journal = Journal.ofTask(config);
            String incarnation = config.get("task") + "." + Journal.INCARNATION + "." + journal.attempt() + ".txt";
            file = Path.of(config.get("into"), incarnation).toString();
            journal.started();
        }

        @Override
        public void put(Collection<SinkRecord> records) {
            StringBuilder lines = new StringBuilder();
            for (SinkRecord record : records) {
                lines.append(lines.length() == 0 ? "" : "\n").append(record.value());
            }
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
