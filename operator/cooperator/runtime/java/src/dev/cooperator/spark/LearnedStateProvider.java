package dev.cooperator.spark;

import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.execution.streaming.state.RocksDB;
import org.apache.spark.sql.execution.streaming.state.RocksDBConf;
import org.apache.spark.sql.execution.streaming.state.RocksDBEventForwarder;
import org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider;
import scala.Option;

/**
 * Spark's provider of state in RocksDB, which takes over what a learner of this JVM has of the same store
 * ({@link LearnedStore}). Its files are those of Spark's provider, so that a checkpoint can change between
 * the two.
 */
public final class LearnedStateProvider extends RocksDBStateStoreProvider {
  @Override
  public RocksDB createRocksDB(
      String root,
      RocksDBConf conf,
      File local,
      Configuration hadoop,
      String loggingId,
      boolean useColumnFamilies,
      boolean enableStateStoreCheckpointIds,
      int partition,
      Option<RocksDBEventForwarder> events,
      Option<String> uniqueId) {
    if (enableStateStoreCheckpointIds && !useColumnFamilies) {
      RocksDB learned = LearnedStore.take(root, conf, hadoop, events);
      if (learned != null) {
        return learned;
      }
    }
    return super.createRocksDB(
        root,
        conf,
        local,
        hadoop,
        loggingId,
        useColumnFamilies,
        enableStateStoreCheckpointIds,
        partition,
        events,
        uniqueId);
  }
}
