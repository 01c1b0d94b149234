package dev.cooperator.spark;

import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.spark.internal.io.FileNameSpec;
import org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol;

/**
 * Gives files that Spark writes an ending that readers of the directory above do not ask for
 * ({@code **}{@code /*.parquet} matches hidden directories, too).
 */
public final class StagedFiles extends SQLHadoopMapReduceCommitProtocol {
  static final String ENDING = ".staged";

  /** Spark calls it by reflection. */
  public StagedFiles(String jobId, String path, boolean dynamicPartitionOverwrite) {
    super(jobId, path, dynamicPartitionOverwrite);
  }

  @Override
  public String getFilename(TaskAttemptContext context, FileNameSpec spec) {
    return super.getFilename(context, spec) + ENDING;
  }
}
