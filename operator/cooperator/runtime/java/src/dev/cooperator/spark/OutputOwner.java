package dev.cooperator.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.sinks.FileStreamSink;

/**
 * The checkpoint to which a directory of Spark's file sink belongs. The sink skips every batch whose number its
 * log ({@code _spark_metadata}) has already, whoever wrote it: rows of a second checkpoint would be lost.
 * So the log has a file {@code owner}, created once and never replaced, with the id of the query that the
 * first checkpoint is of; a sink of any other query does not open. The Python counterpart passes to the session
 * of a unit the id: {@code cooperator.connectors.output_owner}.
 */
final class OutputOwner {
  static final String LOG = "_spark_metadata";
  private static final String FILE = "owner";
  private static final String VERSION = "v1";
  private static final String SINK = FileStreamSink.class.getName();
  private static final int TRIES = 10;
  private static final long PAUSE_MS = 100;

  private final Path log;
  private final CheckpointFileManager files;
  private final Configuration configuration;
  private final String query;

  private OutputOwner(Path log, CheckpointFileManager files, Configuration configuration) {
    this.log = log;
    this.files = files;
    this.configuration = configuration;
    this.query = configuration.getRaw("cooperator.output.query");
  }

  /**
   * To be called when the file manager of a log is made. OutputTakenException when a sink opens the log of
   * another checkpoint; queries that only read what another one has written open its log as well.
   */
  static void check(Path log, CheckpointFileManager files, Configuration configuration) throws IOException {
    OutputOwner owner = new OutputOwner(log, files, configuration);
    if (owner.query != null && log.getName().equals(LOG) && isOpenedBySink()) {
      owner.claim();
    }
  }

  private static boolean isOpenedBySink() {
    return StackWalker.getInstance()
        .walk(frames -> frames.anyMatch(
            frame -> frame.getClassName().equals(SINK) && frame.getMethodName().equals("<init>")));
  }

  private void claim() throws IOException {
    Path marker = new Path(log, FILE);
    String self = configuration.getRaw("cooperator.output.owner");
    String[] owner = read(marker);
    if (owner != null && !owner[1].equals(query) && owner[2].equals(self) && latestBatch() < 0) {
      // The same checkpoint before it was reset, which has written nothing; its claims are gone.
      files.delete(marker);
      owner = null;
    }
    if (owner == null) {
      refuseForeignBatches();
      files.mkdirs(log);
      create(marker, (VERSION + "\n" + query + "\n" + self + "\n").getBytes(StandardCharsets.UTF_8));
      owner = read(marker);
    }
    if (owner == null || !owner[1].equals(query)) {
      throw new OutputTakenException(
          log.getParent(), owner == null ? "an owner whose file has just vanished" : owner[2]);
    }
    // The checkpoint begins a batch before the sink has it; else an older copy of the checkpoint was restored.
    long latest = latestBatch();
    if (latest > configuration.getLong("cooperator.output.newest", Long.MAX_VALUE)) {
      throw new IOException("cooperator: output ahead: " + log.getParent() + " has batch " + latest);
    }
  }

  /** Batches that were written before there were owners: by this checkpoint, or the log is another's. */
  private void refuseForeignBatches() throws IOException {
    long latest = latestBatch();
    long committed = configuration.getLong("cooperator.output.committed", -1);
    long newest = configuration.getLong("cooperator.output.newest", -1);
    // The sink has a batch after the checkpoint begins it, and before the checkpoint calls it done.
    if (latest >= 0 && (latest < committed || latest > newest)) {
      throw new OutputTakenException(
          log.getParent(),
          "a checkpoint that is not known (its newest batch is " + latest + ", that of this unit " + newest + ")");
    }
  }

  private long latestBatch() throws IOException {
    if (!files.exists(log)) {
      return -1;
    }
    return Arrays.stream(files.list(log, path -> path.getName().matches("\\d+(\\.compact)?")))
        .mapToLong(status -> Long.parseLong(status.getPath().getName().split("\\.")[0]))
        .max()
        .orElse(-1);
  }

  /** The lines of the file; null if it is not there. It may be read while somebody still writes it. */
  private String[] read(Path marker) throws IOException {
    for (int count = 0; count < TRIES; count++) {
      try (FSDataInputStream stream = files.open(marker)) {
        String text = new String(stream.readAllBytes(), StandardCharsets.UTF_8);
        String[] lines = text.split("\n");
        if (text.endsWith("\n") && lines.length == 3 && lines[0].equals(VERSION)) {
          return lines;
        }
      } catch (FileNotFoundException | java.nio.file.NoSuchFileException error) {
        return null;
      }
      try {
        Thread.sleep(PAUSE_MS);
      } catch (InterruptedException error) {
        Thread.currentThread().interrupt();
        throw new IOException(error);
      }
    }
    throw new IOException(
        marker + " is not whole, or of an unknown version: if nothing writes to " + log.getParent()
            + ", remove that file");
  }

  /** If several try, on any machines, one creates the file; the others leave it as it is. */
  private void create(Path marker, byte[] content) throws IOException {
    FileSystem system = log.getFileSystem(configuration);
    String scheme = system.getUri().getScheme();
    try {
      if ("file".equals(scheme)) {
        createLocally(Paths.get(system.makeQualified(marker).toUri().getPath()), content);
      } else if (files instanceof S3CheckpointFiles) {
        write(files.createAtomic(marker, false), content);
      } else {
        write(system.create(marker, false), content);
      }
    } catch (org.apache.hadoop.fs.FileAlreadyExistsException | java.nio.file.FileAlreadyExistsException error) {
      return; // Somebody else was first; it is read next who.
    }
  }

  private static void write(OutputStream stream, byte[] content) throws IOException {
    try (stream) {
      stream.write(content);
    }
  }

  /** Hadoop's local file system looks before it creates. A link appears whole; not every volume has them. */
  private static void createLocally(java.nio.file.Path marker, byte[] content) throws IOException {
    java.nio.file.Path part = marker.resolveSibling("." + FILE + "-" + UUID.randomUUID());
    try {
      Files.write(part, content, StandardOpenOption.CREATE_NEW, StandardOpenOption.SYNC);
      Files.createLink(marker, part);
    } catch (java.nio.file.FileAlreadyExistsException error) {
      throw error;
    } catch (UnsupportedOperationException | FileSystemException error) {
      Files.write(marker, content, StandardOpenOption.CREATE_NEW, StandardOpenOption.SYNC);
    } finally {
      Files.deleteIfExists(part);
    }
  }

  /** The message is read by {@code cooperator.connectors.output_owner}, up to the end of its line. */
  static final class OutputTakenException extends IOException {
    private static final long serialVersionUID = 1L;

    OutputTakenException(Path directory, String owner) {
      super("cooperator: output taken: " + directory + " has batches of " + owner);
    }
  }
}
