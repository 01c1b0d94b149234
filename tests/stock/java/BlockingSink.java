package cooperator.stock;

import java.util.Collection;
import java.util.List;
import java.util.Map;

import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;

/** A sink whose tasks hang (see {@link Block}). */
public class BlockingSink extends SinkConnector {
    private Map<String, String> config;

    @Override
    public void start(Map<String, String> config) {
        this.config = config;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return Nowhere.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int maxTasks) {
        return Tasks.configs(config, maxTasks);
    }

    @Override
    public void stop() {
    }

    @Override
    public ConfigDef config() {
        return Tasks.ANY;
    }

    @Override
    public String version() {
        return "1";
    }

    public static class Nowhere extends SinkTask {
        private Journal journal;

        @Override
        public void start(Map<String, String> config) {
            Block.at("Task::start");
            journal = Journal.ofTask(config);
            journal.started();
        }

        @Override
        public void put(Collection<SinkRecord> records) {
            Block.at("SinkTask::put");
        }

        @Override
        public void stop() {
            Block.at("Task::stop");
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
