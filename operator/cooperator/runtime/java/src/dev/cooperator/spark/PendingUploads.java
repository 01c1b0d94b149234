package dev.cooperator.spark;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.model.AbortMultipartUploadRequest;
import software.amazon.awssdk.services.s3.model.CompleteMultipartUploadRequest;
import software.amazon.awssdk.services.s3.model.CompletedMultipartUpload;
import software.amazon.awssdk.services.s3.model.CompletedPart;
import software.amazon.awssdk.services.s3.model.CreateMultipartUploadRequest;
import software.amazon.awssdk.services.s3.model.ListMultipartUploadsRequest;
import software.amazon.awssdk.services.s3.model.MultipartUpload;
import software.amazon.awssdk.services.s3.model.NoSuchUploadException;
import software.amazon.awssdk.services.s3.model.S3Exception;
import software.amazon.awssdk.services.s3.model.UploadPartCopyRequest;

/**
 * Objects of an S3 store that are complete and not visible: uploads whose last request is not sent yet. That request
 * makes the object visible and ends the upload, in one step, so it succeeds once. Thread-safe.
 */
public final class PendingUploads {
  /** The store copies parts of at most 5 GiB. */
  private static final long PART_BYTES = 4L << 30;

  private static final int NOT_FOUND = 404;

  private final S3AFileSystem store;
  private final S3Client client;

  public PendingUploads(String directory, Configuration configuration) throws IOException {
    store = (S3AFileSystem) new Path(directory).getFileSystem(configuration);
    client = store.getS3AInternals().getAmazonS3Client("files by intents");
  }

  /** Copies an object, inside the store, into an upload to {@code target}; returns the upload's token. */
  public String prepare(String source, String target) throws IOException {
    FileStatus status = store.getFileStatus(new Path(source));
    String bucket = store.getBucket();
    String key = store.pathToKey(new Path(target));
    try {
      String id =
          client
              .createMultipartUpload(CreateMultipartUploadRequest.builder().bucket(bucket).key(key).build())
              .uploadId();
      StringBuilder token = new StringBuilder(id);
      for (long start = 0; start < status.getLen(); start += PART_BYTES) {
        long last = Math.min(start + PART_BYTES, status.getLen()) - 1;
        UploadPartCopyRequest part =
            UploadPartCopyRequest.builder()
                .sourceBucket(bucket)
                .sourceKey(store.pathToKey(new Path(source)))
                .copySourceRange("bytes=" + start + "-" + last)
                .destinationBucket(bucket)
                .destinationKey(key)
                .uploadId(id)
                .partNumber((int) (start / PART_BYTES) + 1)
                .build();
        token.append(' ').append(client.uploadPartCopy(part).copyPartResult().eTag());
      }
      return Base64.getUrlEncoder().withoutPadding().encodeToString(token.toString().getBytes("UTF-8"));
    } catch (S3Exception error) {
      throw new IOException(target + ": " + error.getMessage(), error);
    }
  }

  /** Makes the object visible; returns false if the upload has ended before. */
  public boolean publish(String token, String target) throws IOException {
    String[] parts = parts(token);
    List<CompletedPart> completed = new ArrayList<>();
    for (int number = 1; number < parts.length; number++) {
      completed.add(CompletedPart.builder().partNumber(number).eTag(parts[number]).build());
    }
    try {
      client.completeMultipartUpload(
          CompleteMultipartUploadRequest.builder()
              .bucket(store.getBucket())
              .key(store.pathToKey(new Path(target)))
              .uploadId(parts[0])
              .multipartUpload(CompletedMultipartUpload.builder().parts(completed).build())
              .build());
      return true;
    } catch (S3Exception error) {
      if (isGone(error)) {
        return false;
      }
      throw new IOException(target + ": " + error.getMessage(), error);
    }
  }

  /** Returns the keys and ids of the uploads below a directory that have not ended: {@code [[key, id], …]}. */
  public String[][] list(String directory) throws IOException {
    String prefix = store.pathToKey(new Path(directory)) + "/";
    List<String[]> found = new ArrayList<>();
    ListMultipartUploadsRequest.Builder request =
        ListMultipartUploadsRequest.builder().bucket(store.getBucket()).prefix(prefix);
    try {
      client
          .listMultipartUploadsPaginator(request.build())
          .uploads()
          .forEach((MultipartUpload upload) -> found.add(new String[] {upload.key(), upload.uploadId()}));
    } catch (S3Exception error) {
      throw new IOException(directory + ": " + error.getMessage(), error);
    }
    return found.toArray(String[][]::new);
  }

  /** Ends an upload without an object. One that has ended is no error. */
  public void abort(String key, String id) throws IOException {
    try {
      client.abortMultipartUpload(
          AbortMultipartUploadRequest.builder().bucket(store.getBucket()).key(key).uploadId(id).build());
    } catch (S3Exception error) {
      if (!isGone(error)) {
        throw new IOException(key + ": " + error.getMessage(), error);
      }
    }
  }

  /** Ends an upload by its token, without an object. */
  public void abandon(String token, String target) throws IOException {
    abort(store.pathToKey(new Path(target)), parts(token)[0]);
  }

  /** Returns the upload's id and the tags of its parts. */
  private static String[] parts(String token) throws IOException {
    return new String(Base64.getUrlDecoder().decode(token), "UTF-8").split(" ");
  }

  private static boolean isGone(S3Exception error) {
    return error instanceof NoSuchUploadException || error.statusCode() == NOT_FOUND;
  }
}
