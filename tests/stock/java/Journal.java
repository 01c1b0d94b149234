package cooperator.stock;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;

/** The tasks that run here, in the lines that tests/harness/journal.py reads. A unit is a task, or a connector's instance. */
final class Journal {
    static final String MEMBER = System.getProperty("cooperator.identity", "");
    static final String INCARNATION = System.getProperty("cooperator.incarnation", "");

    private static final AtomicLong ATTEMPTS = new AtomicLong();

    private final String path;
    private final String task;
    private final String unit;
    private final long attempt = ATTEMPTS.incrementAndGet();
    private boolean open;

    private Journal(String path, String task, String unit) {
        this.path = path;
        this.task = task;
        this.unit = unit;
    }

    static Journal ofInstance(Map<String, String> config) {
        return new Journal(config.get("journal"), config.get("name") + "-instance", "instance");
    }

    static Journal ofTask(Map<String, String> config) {
        return new Journal(config.get("journal"), config.get("task"), config.get("number"));
    }

    long attempt() {
        return attempt;
    }

    synchronized void started() {
        open = true;
        write("start");
    }

    /** A stop without a start, or a second one, is no end of a run. */
    synchronized void stopped() {
        if (open) {
            open = false;
            write("stop");
        }
    }

    private void write(String event) {
        append(path, String.format(
            "{\"event\": \"%s\", \"task\": \"%s\", \"unit\": \"%s\", \"member\": \"%s\", \"incarnation\": \"%s\", "
                + "\"attempt\": %d, \"at_ms\": %d}",
            event, task, unit, MEMBER, INCARNATION, attempt, System.currentTimeMillis()));
    }

    /** A whole line at once: several JVMs write to one file. */
    static void append(String path, String line) {
        try {
            Files.write(Path.of(path), (line + "\n").getBytes(StandardCharsets.UTF_8),
                StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
