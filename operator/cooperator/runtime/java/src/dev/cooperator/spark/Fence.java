package dev.cooperator.spark;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Comparator;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;

/**
 * Who holds a unit: a directory with one empty file for each attempt that claimed it, whose names sort as
 * the attempts' epochs do. The last name holds. Twin in Python, which also makes the claims:
 * {@code cooperator.runtime.fence}.
 */
final class Fence {
  private final Path directory;
  private final String claim;

  private Fence(Path directory, String claim) {
    this.directory = directory;
    this.claim = claim;
  }

  /** The fence that the session of a unit names; without one everything is allowed. */
  static Fence of(Configuration configuration) {
    String directory = configuration.get("cooperator.fence.directory", "");
    return directory.isEmpty()
        ? new Fence(null, "")
        : new Fence(Paths.get(directory), configuration.get("cooperator.fence.claim", ""));
  }

  /** FencedException when the claim is not the last one, or is there no more. */
  void check(Object about) throws IOException {
    if (directory == null) {
      return;
    }
    String holder;
    try (Stream<Path> claims = Files.list(directory)) {
      holder = claims.map(file -> file.getFileName().toString()).max(Comparator.naturalOrder()).orElse("");
    }
    if (!holder.equals(claim)) {
      String now = holder.isEmpty() ? "nobody" : holder;
      throw new FencedException(about + " is not written: " + now + " holds the unit, not " + claim);
    }
  }

  /** The attempt was replaced, and writes nothing more. */
  static final class FencedException extends IOException {
    private static final long serialVersionUID = 1L;

    FencedException(String message) {
      super(message);
    }
  }
}
