package dev.cooperator.spark;

import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/** A source's directory in any of Hadoop's file systems, and the paths of files below it. */
final class FileDirectory {
  private final Path given;
  private final Configuration conf;
  private FileSystem files;
  private URI root;

  FileDirectory(String path, Configuration conf) {
    this.given = new Path(path);
    this.conf = conf;
  }

  FileSystem fileSystem() throws IOException {
    if (files == null) {
      files = given.getFileSystem(conf);
      root = files.makeQualified(given).toUri();
    }
    return files;
  }

  Path root() throws IOException {
    return fileSystem().makeQualified(given);
  }

  /** Returns the path of a file by what is below the directory; names may have colons. */
  Path path(String below) {
    try {
      fileSystem();
    } catch (IOException error) {
      throw new java.io.UncheckedIOException(error);
    }
    return new Path(root.getScheme(), root.getAuthority(), prefix() + below);
  }

  /** Returns what is below the directory, decoded. */
  String below(Path path) {
    return path.toUri().getPath().substring(prefix().length());
  }

  private String prefix() {
    String path = root.getPath();
    return path.endsWith("/") ? path : path + "/";
  }
}
