package dev.cooperator.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.zip.CRC32;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.GlobFilter;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.io.compress.CompressionCodecFactory;
import org.apache.spark.sql.SparkSession;

/**
 * The files below a directory that a task has not seen, by the buckets of its units: one listing for all of
 * them. It keeps the MD5 of each path that was read, or handed out. It is for one thread; {@code close} may be
 * called by any.
 *
 * <p>Files and directories whose names begin with "." or "_" (unless they contain "=") are hidden, and so are files
 * that are still being copied, as everywhere in Spark.
 */
public final class FileListing {
  private static final Comparator<Found> BY_TIME =
      Comparator.comparingLong(Found::modifiedMs).thenComparing(Found::below);

  private final FileDirectory directory;
  private final boolean recursive;
  private final boolean wholetext;
  private final GlobFilter glob;
  private final int buckets;
  private final CompressionCodecFactory codecs;
  private final Map<Integer, Deque<Found>> waiting = new TreeMap<>();
  private final SeenPaths seen = new SeenPaths();
  private volatile boolean isClosed;

  /** A file, with its path below the directory. */
  private record Found(String below, long modifiedMs, long size) {}

  /**
   * @param options JSON: {@code path}, {@code recursive}, {@code wholetext}, {@code glob} (of names; empty: all),
   *     {@code buckets} (their number) and {@code units} (the buckets of the task)
   */
  public FileListing(SparkSession session, String options) throws IOException {
    JsonNode node = KafkaTransactions.JSON.readTree(options);
    Configuration conf =
        ((org.apache.spark.sql.classic.SparkSession) session).sessionState().newHadoopConf();
    directory = new FileDirectory(node.get("path").asText(), conf);
    recursive = node.get("recursive").asBoolean();
    wholetext = node.get("wholetext").asBoolean();
    String pattern = node.get("glob").asText();
    glob = pattern.isEmpty() ? null : new GlobFilter(pattern);
    buckets = node.get("buckets").asInt();
    node.get("units").forEach(unit -> waiting.put(unit.asInt(), new ArrayDeque<>()));
    codecs = new CompressionCodecFactory(conf);
  }

  /** Returns the path of the directory without scheme and escapes, and with a slash at its end. */
  public String root() throws IOException {
    String path = directory.root().toUri().getPath();
    return path.endsWith("/") ? path : path + "/";
  }

  /** Forgets all paths, and what waits. */
  public void clear() {
    seen.clear();
    waiting.values().forEach(Deque::clear);
  }

  /** Adds paths that were read, by their MD5, one after the other. */
  public void know(byte[] digests) {
    seen.addAll(digests);
  }

  /** Forgets paths that were handed out and not read. */
  public void forget(String paths) throws IOException {
    for (JsonNode path : KafkaTransactions.JSON.readTree(paths)) {
      seen.remove(digest(path.asText()));
    }
  }

  /** Lists the directory. Throws {@link FileNotFoundException} if there is none. */
  public void list() throws IOException {
    Map<Integer, List<Found>> found = new TreeMap<>();
    waiting.keySet().forEach(unit -> found.put(unit, new ArrayList<>()));
    FileSystem files = directory.fileSystem();
    Deque<Path> ahead = new ArrayDeque<>(List.of(directory.root()));
    boolean isRoot = true;
    while (!ahead.isEmpty() && !isClosed) {
      Path next = ahead.pop();
      try {
        RemoteIterator<FileStatus> each = files.listStatusIterator(next);
        while (each.hasNext() && !isClosed) {
          FileStatus status = each.next();
          String name = status.getPath().getName();
          if (isHidden(name)) {
            continue;
          }
          if (!status.isDirectory()) {
            add(status, found);
          } else if (recursive || name.contains("=")) {
            ahead.push(status.getPath());
          }
        }
      } catch (FileNotFoundException error) {
        if (isRoot) {
          throw error;
        } // It was removed since its parent was listed.
      }
      isRoot = false;
    }
    found.forEach(
        (unit, some) -> {
          some.sort(BY_TIME);
          waiting.put(unit, new ArrayDeque<>(some));
        });
  }

  /**
   * Hands out files that the listing has found, the oldest first.
   *
   * @param units JSON: the buckets to take from
   * @param limit the maximum number of each
   * @return JSON: {@code [[unit, path, modifiedMs, size, isWhole], …]}
   */
  public String take(String units, int limit) throws IOException {
    ArrayNode answer = KafkaTransactions.JSON.createArrayNode();
    for (JsonNode each : KafkaTransactions.JSON.readTree(units)) {
      Deque<Found> some = waiting.getOrDefault(each.asInt(), new ArrayDeque<>());
      for (int count = 0; count < limit && !some.isEmpty(); count++) {
        Found file = some.pop();
        seen.add(digest(file.below()));
        boolean isWhole = wholetext || codecs.getCodec(new Path("/" + name(file.below()))) != null;
        answer.addArray().add(each.asInt()).add(file.below()).add(file.modifiedMs()).add(file.size()).add(isWhole);
      }
    }
    return answer.toString();
  }

  /** Ends a listing that runs. */
  public void close() {
    isClosed = true;
  }

  private void add(FileStatus status, Map<Integer, List<Found>> found) {
    if (glob != null && !glob.accept(status.getPath())) {
      return;
    }
    String below = directory.below(status.getPath());
    CRC32 hash = new CRC32();
    hash.update(below.getBytes(StandardCharsets.UTF_8));
    List<Found> unit = found.get((int) (hash.getValue() % buckets));
    if (unit != null && !seen.has(digest(below))) {
      unit.add(new Found(below, status.getModificationTime(), status.getLen()));
    }
  }

  private static String name(String below) {
    return below.substring(below.lastIndexOf('/') + 1).replace(':', '_');
  }

  private static boolean isHidden(String name) {
    return name.startsWith(".")
        || (name.startsWith("_") && !name.contains("="))
        || name.endsWith("._COPYING_");
  }

  private static byte[] digest(String below) {
    try {
      return MessageDigest.getInstance("MD5").digest(below.getBytes(StandardCharsets.UTF_8));
    } catch (NoSuchAlgorithmException error) {
      throw new IllegalStateException(error); // Every JVM has it.
    }
  }
}
