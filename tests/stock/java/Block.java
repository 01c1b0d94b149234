package cooperator.stock;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/**
 * Hangs, deaf to interrupts as bad plug-ins are, while the file of this JVM's property "cooperator.hangs"
 * says so: a line "Connector::start" hangs every member there, "Connector::start w-1" that one. A task that
 * hangs writes the same words to the file ".hit" beside it.
 */
final class Block {
    private static final String FILE = System.getProperty("cooperator.hangs", "");

    private Block() {
    }

    static void at(String point) {
        if (!isTold(point)) {
            return;
        }
        Journal.append(FILE + ".hit", point + " " + Journal.MEMBER);
        while (isTold(point)) {
            try {
                Thread.sleep(50);
            } catch (InterruptedException deaf) {
                continue;
            }
        }
    }

    private static boolean isTold(String point) {
        try {
            List<String> lines = FILE.isEmpty() ? List.of() : Files.readAllLines(Path.of(FILE));
            return lines.contains(point) || lines.contains(point + " " + Journal.MEMBER);
        } catch (IOException none) {
            return false;
        }
    }
}
