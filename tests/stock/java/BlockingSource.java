package cooperator.stock;

import java.util.List;
import java.util.Map;

import org.apache.kafka.common.config.Config;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.ConnectorContext;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** A source that hangs (see {@link Block}). */
public class BlockingSource extends SourceConnector {
    private Map<String, String> config;
    private Journal journal;

    @Override
    public void initialize(ConnectorContext context) {
        super.initialize(context);
        Block.at("Connector::initialize");
    }

    @Override
    public void start(Map<String, String> config) {
        this.config = config;
        Block.at("Connector::start");
        journal = Journal.ofInstance(config);
        journal.started();
    }

    @Override
    public Class<? extends Task> taskClass() {
        return Nothing.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int maxTasks) {
        Block.at("Connector::taskConfigs");
        return Tasks.configs(config, maxTasks);
    }

    @Override
    public void stop() {
        Block.at("Connector::stop");
        if (journal != null) {
            journal.stopped();
        }
    }

    @Override
    public Config validate(Map<String, String> config) {
        Block.at("Connector::validate");
        return super.validate(config);
    }

    @Override
    public ConfigDef config() {
        Block.at("Connector::config");
        return Tasks.ANY;
    }

    @Override
    public String version() {
        return "1";
    }

    public static class Nothing extends SourceTask {
        private Journal journal;

        @Override
        public void start(Map<String, String> config) {
            Block.at("Task::start");
            journal = Journal.ofTask(config);
            journal.started();
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            Block.at("SourceTask::poll");
            Thread.sleep(100);
            return null;
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
