package dev.cooperator.spark;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.streaming.state.RocksDB;
import org.apache.spark.sql.execution.streaming.state.RocksDBConf;
import org.apache.spark.sql.execution.streaming.state.RocksDBConf$;
import org.apache.spark.sql.execution.streaming.state.RocksDBEventForwarder;
import org.apache.spark.sql.execution.streaming.state.StateStoreConf;
import org.apache.spark.sql.execution.streaming.state.StateStoreId;
import scala.Option;

/**
 * One store of a query's state, which a learner keeps at the newest commit: it reads from the checkpoint, and
 * writes to its local directory. The attempt that holds the unit takes it over ({@link LearnedStateProvider}).
 *
 * <p>Calls are made one at a time; {@code take} waits a while for one that is under way.
 */
public final class LearnedStore {
  private static final long PATIENCE_S = 10;
  private static final Map<String, LearnedStore> STORES = new ConcurrentHashMap<>();

  private final String root;
  private final File local;
  private final RocksDBConf conf;
  private final Configuration hadoop;
  private final int partition;
  private final ReentrantLock turn = new ReentrantLock();
  private FollowingRocksDB store;
  private boolean isTaken;
  private boolean isClosed;

  /**
   * The settings are those of {@code session}, which names a fence and a claim that nobody has.
   *
   * @param state the directory of the state in a checkpoint
   * @param local an own directory of this member
   */
  public LearnedStore(
      SparkSession session, String state, long operator, int partition, String name, String local) {
    org.apache.spark.sql.classic.SparkSession classic = (org.apache.spark.sql.classic.SparkSession) session;
    hadoop = classic.sessionState().newHadoopConf();
    root = qualified(new StateStoreId(state, operator, partition, name).storeCheckpointLocation(), hadoop);
    conf = RocksDBConf$.MODULE$.apply(StateStoreConf.apply(classic.sessionState().conf()));
    this.partition = partition;
    this.local = new File(local);
    STORES.put(root, this);
  }

  /** Goes to a version; the first time, and where a newer snapshot is, from that snapshot. */
  public void follow(long version, String id) {
    turn.lock();
    try {
      if (isTaken || isClosed) {
        return;
      }
      if (store == null) {
        local.mkdirs();
        store = new FollowingRocksDB(root, conf, local, hadoop, "learner of " + root, partition);
      }
      store.load(version, Option.apply(id), true);
    } finally {
      turn.unlock();
    }
  }

  public boolean isTaken() {
    return isTaken;
  }

  /** Ends learning, and removes the local files, unless an attempt has taken them over. */
  public void close() {
    STORES.remove(root, this);
    turn.lock();
    try {
      isClosed = true;
      if (store != null && !isTaken) {
        store.close();
      }
    } finally {
      turn.unlock();
    }
  }

  /** The learned store for an attempt that holds the unit and has the same settings; otherwise null. */
  static RocksDB take(
      String root, RocksDBConf conf, Configuration hadoop, Option<RocksDBEventForwarder> events) {
    LearnedStore learned = STORES.get(qualified(new Path(root), hadoop));
    return learned == null ? null : learned.give(conf, hadoop, events);
  }

  private RocksDB give(RocksDBConf wanted, Configuration attempt, Option<RocksDBEventForwarder> events) {
    try {
      if (!Fence.isHeld(attempt) || !turn.tryLock(PATIENCE_S, TimeUnit.SECONDS)) {
        return null;
      }
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      return null;
    }
    try {
      if (store == null || isTaken || isClosed || !isSame(conf, wanted)) {
        return null;
      }
      // From here on its files are put in place in the name of the attempt.
      Fence.give(attempt, hadoop);
      store.give(events);
      isTaken = true;
      STORES.remove(root, this);
      return store;
    } finally {
      turn.unlock();
    }
  }

  /** Whether two have the same settings; the sessions from which they are read differ. */
  private static boolean isSame(RocksDBConf one, RocksDBConf other) {
    for (int number = 0; number < one.productArity(); number++) {
      Object value = one.productElement(number);
      if (!(value instanceof StateStoreConf) && !value.equals(other.productElement(number))) {
        return false;
      }
    }
    return true;
  }

  private static String qualified(Path path, Configuration configuration) {
    try {
      return path.getFileSystem(configuration).makeQualified(path).toString();
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }
}
