package dev.cooperator.spark;

import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.zip.CRC32;
import org.apache.hadoop.conf.Configurable;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;

/**
 * Accepts the files of one bucket: those whose path below the root has a CRC-32 (of its UTF-8 bytes)
 * that is the bucket's index modulo the number of buckets. Without a number of buckets it accepts all.
 *
 * <p>Spark applies {@code mapreduce.input.pathFilter.class} to the files that it lists, and hands the
 * reader's options over as configuration, in lower case. Large listings run as Spark jobs, to which the
 * filter travels: hence Serializable. Python counterpart: {@code cooperator.connectors.files.bucket_of}.
 */
public final class BucketPathFilter implements PathFilter, Configurable, Serializable {
  private static final long serialVersionUID = 1L;

  private transient Configuration configuration;
  private String root = "";
  private int buckets;
  private int index;

  @Override
  public void setConf(Configuration configuration) {
    this.configuration = configuration;
    if (configuration != null) {
      root = configuration.get("cooperator.bucket.root", "");
      buckets = configuration.getInt("cooperator.bucket.count", 0);
      index = configuration.getInt("cooperator.bucket.index", 0);
    }
  }

  @Override
  public Configuration getConf() {
    return configuration;
  }

  @Override
  public boolean accept(Path path) {
    if (buckets == 0) {
      return true;
    }
    String name = path.toUri().getPath();
    if (name.startsWith(root)) {
      name = name.substring(root.length());
    }
    CRC32 hash = new CRC32();
    hash.update(name.getBytes(StandardCharsets.UTF_8));
    return hash.getValue() % buckets == index;
  }
}
