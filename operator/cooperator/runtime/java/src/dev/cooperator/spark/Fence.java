package dev.cooperator.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.Comparator;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;

/**
 * Holders of units: a directory with one empty file for each attempt that claimed it, whose names sort as
 * the attempts' epochs do. The last name holds. The Python counterpart also makes the claims:
 * {@code cooperator.connectors.fence}.
 */
final class Fence {
  private static final String DIRECTORY = "cooperator.fence.directory";
  private static final String CLAIM = "cooperator.fence.claim";

  private final Configuration configuration;

  private Fence(Configuration configuration) {
    this.configuration = configuration;
  }

  /**
   * The fence that the session of a unit names; without one everything is allowed. It is read at each check,
   * since a learner's store is given to an attempt ({@link #give}).
   */
  static Fence of(Configuration configuration) {
    return new Fence(configuration);
  }

  /** Whether the configuration names a claim, and it is the last one of its unit. */
  static boolean isHeld(Configuration configuration) {
    try {
      new Fence(configuration).check("the state");
      return !configuration.get(DIRECTORY, "").isEmpty();
    } catch (IOException error) {
      return false;
    }
  }

  /** Gives what has the fence of {@code to} the claim of {@code from}. */
  static void give(Configuration from, Configuration to) {
    to.set(DIRECTORY, from.get(DIRECTORY));
    to.set(CLAIM, from.get(CLAIM));
  }

  /** FencedException when the claim is not the last one, or is there no more. */
  void check(Object about) throws IOException {
    String directory = configuration.get(DIRECTORY, "");
    String claim = configuration.get(CLAIM, "");
    if (directory.isEmpty()) {
      return;
    }
    String holder;
    try (Stream<String> claims = claims(directory)) {
      holder = claims.max(Comparator.naturalOrder()).orElse("");
    }
    if (!holder.equals(claim)) {
      String now = holder.isEmpty() ? "nobody" : holder;
      throw new FencedException(about + " is not written: " + now + " holds the unit, not " + claim);
    }
  }

  private Stream<String> claims(String directory) throws IOException {
    if (!directory.contains("://")) {
      return Files.list(Paths.get(directory)).map(file -> file.getFileName().toString());
    }
    Path path = new Path(directory);
    try {
      FileStatus[] found = path.getFileSystem(configuration).listStatus(path);
      return Arrays.stream(found).filter(FileStatus::isFile).map(status -> status.getPath().getName());
    } catch (FileNotFoundException error) {
      return Stream.empty();
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
