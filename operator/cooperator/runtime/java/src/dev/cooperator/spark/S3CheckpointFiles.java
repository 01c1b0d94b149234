package dev.cooperator.spark;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.Arrays;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.services.s3.model.PutObjectRequest;
import software.amazon.awssdk.services.s3.model.S3Exception;

/**
 * Checkpoints on a store that speaks S3. Entries that must not be replaced are written by one conditional request
 * ({@code If-None-Match: *}): the store decides which of two writers was first. S3A itself looks before it
 * writes, and renames by copying, so that two writers could both succeed.
 */
final class S3CheckpointFiles implements CheckpointFileManager {
  private static final int PRECONDITION_FAILED = 412;
  private static final int CONFLICT = 409;

  private final S3AFileSystem store;
  private final Path root;

  S3CheckpointFiles(Path path, Configuration configuration) throws IOException {
    root = path;
    store = (S3AFileSystem) path.getFileSystem(configuration);
  }

  @Override
  public CancellableFSDataOutputStream createAtomic(Path path, boolean overwriteIfPossible) {
    try {
      return overwriteIfPossible
          ? new Replacing(store.create(path, true))
          : new Creating(new ByteArrayOutputStream(), path);
    } catch (IOException error) {
      throw sneaky(error);
    }
  }

  @Override
  public FSDataInputStream open(Path path) {
    try {
      return store.open(path);
    } catch (IOException error) {
      throw sneaky(error);
    }
  }

  @Override
  public FileStatus[] list(Path path, PathFilter filter) {
    try {
      return Arrays.stream(store.listStatus(path))
          .filter(status -> filter.accept(status.getPath()))
          .toArray(FileStatus[]::new);
    } catch (IOException error) {
      throw sneaky(error);
    }
  }

  @Override
  public void mkdirs(Path path) {
    try {
      store.mkdirs(path);
    } catch (IOException error) {
      throw sneaky(error);
    }
  }

  @Override
  public boolean exists(Path path) {
    try {
      return store.exists(path);
    } catch (IOException error) {
      throw sneaky(error);
    }
  }

  @Override
  public void delete(Path path) {
    try {
      store.delete(path, true);
    } catch (IOException error) {
      throw sneaky(error);
    }
  }

  @Override
  public boolean isLocal() {
    return false;
  }

  @Override
  public Path createCheckpointDirectory() {
    Path qualified = store.makeQualified(root);
    mkdirs(qualified);
    return qualified;
  }

  /** Scala declares no exceptions, and its callers wait for these. */
  @SuppressWarnings("unchecked")
  private static <E extends Throwable> RuntimeException sneaky(Throwable error) throws E {
    throw (E) error;
  }

  /** Large or rewritten files: S3A's own stream, which shows nothing before it is closed. */
  private static final class Replacing extends CancellableFSDataOutputStream {
    private final FSDataOutputStream stream;

    Replacing(FSDataOutputStream stream) {
      super(stream);
      this.stream = stream;
    }

    @Override
    public void cancel() {
      stream.abort();
    }
  }

  /** Entries of logs: small, and kept here until they are whole. */
  private final class Creating extends CancellableFSDataOutputStream {
    private final ByteArrayOutputStream content;
    private final Path path;
    private boolean over;

    Creating(ByteArrayOutputStream content, Path path) {
      super(content);
      this.content = content;
      this.path = path;
    }

    @Override
    public void close() throws IOException {
      if (over) {
        return;
      }
      over = true;
      flush();
      PutObjectRequest request =
          PutObjectRequest.builder()
              .bucket(store.getBucket())
              .key(store.pathToKey(path))
              .ifNoneMatch("*")
              .build();
      try {
        store
            .getS3AInternals()
            .getAmazonS3Client("checkpoint")
            .putObject(request, RequestBody.fromBytes(content.toByteArray()));
      } catch (S3Exception error) {
        if (error.statusCode() == PRECONDITION_FAILED || error.statusCode() == CONFLICT) {
          throw new FileAlreadyExistsException(path + " is there already, or is just being written");
        }
        throw new IOException(path + ": " + error.getMessage(), error);
      }
    }

    @Override
    public void cancel() {
      over = true;
    }
  }
}
