package dev.cooperator.spark;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.hadoop.fs.UnsupportedFileSystemException;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream;
import org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * Spark's own file manager of checkpoints and of {@code _spark_metadata}, which puts no file in place
 * unless the unit is still held by the attempt that the session's configuration names (see {@link Fence}),
 * and opens the log of no sink that belongs to another checkpoint (see {@link OutputOwner}).
 *
 * <p>The look at the fence comes after everything is written and right before the file appears. An attempt
 * that is frozen in between is refused all the same: Spark never replaces an entry of its logs, and an
 * entry's contents are fixed by the entry before it.
 */
public final class FencedCheckpointFileManager implements CheckpointFileManager {
  private final CheckpointFileManager files;
  private final Fence fence;

  public FencedCheckpointFileManager(Path path, Configuration configuration) throws Exception {
    fence = Fence.of(configuration);
    files = spark(path, configuration);
    OutputOwner.check(path, files, configuration);
  }

  /** Spark's choice where no class is configured; on S3 one that the store itself makes atomic. */
  private static CheckpointFileManager spark(Path path, Configuration configuration) throws Exception {
    if ("s3a".equals(path.toUri().getScheme())) {
      return new S3CheckpointFiles(path, configuration);
    }
    try {
      return new FileContextBasedCheckpointFileManager(path, configuration);
    } catch (Exception error) {
      // Scala declares no exceptions, so that it cannot be named in the catch.
      if (!(error instanceof UnsupportedFileSystemException)) {
        throw error;
      }
      return new FileSystemBasedCheckpointFileManager(path, configuration);
    }
  }

  @Override
  public CancellableFSDataOutputStream createAtomic(Path path, boolean overwriteIfPossible) {
    return new FencedStream(files.createAtomic(path, overwriteIfPossible), path, fence);
  }

  @Override
  public FSDataInputStream open(Path path) {
    return files.open(path);
  }

  @Override
  public FileStatus[] list(Path path, PathFilter filter) {
    return files.list(path, filter);
  }

  @Override
  public void mkdirs(Path path) {
    files.mkdirs(path);
  }

  @Override
  public boolean exists(Path path) {
    return files.exists(path);
  }

  @Override
  public void delete(Path path) {
    files.delete(path);
  }

  @Override
  public boolean isLocal() {
    return files.isLocal();
  }

  @Override
  public Path createCheckpointDirectory() {
    return files.createCheckpointDirectory();
  }

  @Override
  public void close() {
    files.close();
  }

  private static final class FencedStream extends CancellableFSDataOutputStream {
    private final CancellableFSDataOutputStream stream;
    private final Path path;
    private final Fence fence;

    FencedStream(CancellableFSDataOutputStream stream, Path path, Fence fence) {
      super(stream);
      this.stream = stream;
      this.path = path;
      this.fence = fence;
    }

    /** Puts the file in place. */
    @Override
    public void close() throws IOException {
      try {
        fence.check(path);
      } catch (IOException error) {
        stream.cancel();
        throw error;
      }
      super.close();
    }

    @Override
    public void cancel() {
      stream.cancel();
    }
  }
}
