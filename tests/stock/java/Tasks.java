package cooperator.stock;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import org.apache.kafka.common.config.ConfigDef;

/** Common parts of the connectors of these tests. */
final class Tasks {
    static final ConfigDef ANY = new ConfigDef();

    private Tasks() {
    }

    /** As many as are allowed, each with its name ("task") and number. */
    static List<Map<String, String>> configs(Map<String, String> connector, int count) {
        List<Map<String, String>> configs = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            Map<String, String> config = new HashMap<>(connector);
            config.put("task", connector.get("name") + "-" + number);
            config.put("number", Integer.toString(number));
            configs.add(config);
        }
        return configs;
    }
}
