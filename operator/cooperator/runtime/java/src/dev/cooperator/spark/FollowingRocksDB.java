package dev.cooperator.spark;

import java.io.File;
import java.util.Arrays;
import java.util.Comparator;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.execution.streaming.state.LineageItem;
import org.apache.spark.sql.execution.streaming.state.RecordType;
import org.apache.spark.sql.execution.streaming.state.RocksDB;
import org.apache.spark.sql.execution.streaming.state.RocksDBConf;
import org.apache.spark.sql.execution.streaming.state.RocksDBEventForwarder;
import org.apache.spark.sql.execution.streaming.state.StateStore;
import org.apache.spark.sql.execution.streaming.state.StateStoreChangelogReader;
import scala.Option;
import scala.Tuple2;
import scala.Tuple3;

/**
 * Spark's RocksDB, which goes from a version to a later one by the changelogs between them. Spark's own
 * would close the store, and load it again from the newest snapshot.
 *
 * <p>It goes on only from the snapshot from which Spark would load, so that what it has is what Spark would
 * have: the next snapshot names files of this one, and files of older snapshots may be removed. Once loaded
 * for writing, it is Spark's own in everything.
 */
final class FollowingRocksDB extends RocksDB {
  private final Events events;
  private boolean isWritten;
  private Option<?> base;

  FollowingRocksDB(String root, RocksDBConf conf, File local, Configuration hadoop, String id, int partition) {
    this(root, conf, local, hadoop, id, partition, new Events());
  }

  private FollowingRocksDB(
      String root, RocksDBConf conf, File local, Configuration hadoop, String id, int partition, Events events) {
    super(root, conf, local, hadoop, id, false, true, partition, Option.apply(events), Option.apply(id));
    this.events = events;
  }

  /** Lets an attempt have it, which hears of uploaded snapshots. */
  void give(Option<RocksDBEventForwarder> to) {
    events.to = to;
  }

  @Override
  public RocksDB load(long version, Option<String> id, boolean readOnly) {
    if (!isWritten && id.isDefined()) {
      try {
        follow(version, id);
      } catch (Exception error) {
        // Spark's load begins anew, or says what is wrong.
        loadedVersion_$eq(-1);
      }
    }
    isWritten |= !readOnly;
    return super.load(version, id, readOnly);
  }

  /** Also what is loaded already begins anew with a newer snapshot: files of older ones may be removed. */
  private void follow(long version, Option<String> id) {
    boolean isSnapshot = fileManager().existsSnapshotFile(version, id);
    LineageItem last = new LineageItem(version, id.get());
    LineageItem[] lineage = {last};
    if (!isSnapshot) {
      LineageItem[] before = lineageOf(version, id);
      lineage = Arrays.copyOf(before, before.length + 1);
      lineage[before.length] = last;
      Arrays.sort(lineage, Comparator.comparingLong(LineageItem::version));
    }
    Option<?> snapshot =
        isSnapshot
            ? Option.apply(new Tuple2<>(version, id.get()))
            : fileManager().getLatestSnapshotVersionAndUniqueIdFromLineage(lineage);
    boolean isLoaded = loadedVersion() == version && loadedStateStoreCkptId().equals(id);
    if (!snapshot.equals(base) || !(isLoaded || follows(lineage))) {
      // Spark's own load does it, with the files of that snapshot that are not here yet.
      base = snapshot;
      loadedVersion_$eq(-1);
      return;
    }
    if (isLoaded) {
      return;
    }
    long from = loadedVersion();
    loadedVersion_$eq(-1); // until all is applied
    for (LineageItem item : lineage) {
      if (item.version() > from) {
        apply(item);
      }
    }
    fileManager().setMaxSeenVersion(version);
    lineageManager().resetLineage(lineage);
    loadedStateStoreCkptId_$eq(id);
    loadedVersion_$eq(version);
  }

  /** Whether the lineage goes on from what is loaded, without a gap. */
  private boolean follows(LineageItem[] lineage) {
    if (loadedVersion() < 0 || loadedStateStoreCkptId().isEmpty()) {
      return false;
    }
    long next = loadedVersion();
    String id = loadedStateStoreCkptId().get();
    for (LineageItem item : lineage) {
      if (item.version() >= loadedVersion()) {
        if (item.version() != next || (next == loadedVersion() && !item.checkpointUniqueId().equals(id))) {
          return false;
        }
        next++;
      }
    }
    return next > loadedVersion() + 1;
  }

  private LineageItem[] lineageOf(long version, Option<String> id) {
    StateStoreChangelogReader reader = fileManager().getChangelogReader(version, id);
    try {
      return reader.lineage();
    } finally {
      reader.closeIfNeeded();
    }
  }

  private void apply(LineageItem item) {
    StateStoreChangelogReader reader =
        fileManager().getChangelogReader(item.version(), Option.apply(item.checkpointUniqueId()));
    String family = StateStore.DEFAULT_COL_FAMILY_NAME();
    try {
      while (reader.hasNext()) {
        Tuple3<?, byte[], byte[]> change = reader.next();
        if (change._1().equals(RecordType.PUT_RECORD())) {
          put(change._2(), change._3(), family, false, false);
        } else if (change._1().equals(RecordType.DELETE_RECORD())) {
          remove(change._2(), family, false, false);
        } else if (change._1().equals(RecordType.MERGE_RECORD())) {
          merge(change._2(), change._3(), family, false, false);
        } else {
          throw new IllegalStateException("a changelog has a record of type " + change._1());
        }
      }
    } finally {
      reader.closeIfNeeded();
    }
  }

  /** Passes on which snapshots are uploaded, once an attempt has the store. */
  private static final class Events extends RocksDBEventForwarder {
    private static final long serialVersionUID = 1L;
    private transient volatile Option<RocksDBEventForwarder> to = Option.empty();

    Events() {
      super("00000000-0000-0000-0000-000000000000", null);
    }

    @Override
    public void reportSnapshotUploaded(long version) {
      if (to.isDefined()) {
        to.get().reportSnapshotUploaded(version);
      }
    }
  }
}
