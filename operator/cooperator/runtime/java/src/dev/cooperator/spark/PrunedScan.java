package dev.cooperator.spark;

import java.util.EnumSet;
import java.util.Set;
import java.util.function.Function;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A batch scan of the columns that a query needs; its partitions and readers are the subclass's. */
abstract class PrunedScan implements ScanBuilder, Scan, Batch, SupportsPushDownRequiredColumns {
  final CaseInsensitiveStringMap options;
  private final String name;
  private StructType columns;

  PrunedScan(String name, StructType columns, CaseInsensitiveStringMap options) {
    this.name = name;
    this.columns = columns;
    this.options = options;
  }

  /** A table that is read by such scans. */
  static Table table(String name, StructType schema, Function<CaseInsensitiveStringMap, ScanBuilder> scan) {
    return new ReadTable(name, schema, scan);
  }

  @Override
  public final void pruneColumns(StructType required) {
    columns = required;
  }

  @Override
  public final Scan build() {
    return this;
  }

  @Override
  public final StructType readSchema() {
    return columns;
  }

  @Override
  public final String description() {
    return name;
  }

  @Override
  public final Batch toBatch() {
    return this;
  }

  private static final class ReadTable implements Table, SupportsRead {
    private final String name;
    private final StructType schema;
    private final Function<CaseInsensitiveStringMap, ScanBuilder> scan;

    ReadTable(String name, StructType schema, Function<CaseInsensitiveStringMap, ScanBuilder> scan) {
      this.name = name;
      this.schema = schema;
      this.scan = scan;
    }

    @Override
    public String name() {
      return name;
    }

    @Override
    @SuppressWarnings("deprecation") // It is abstract in Spark 4.0.
    public StructType schema() {
      return schema;
    }

    @Override
    public Set<TableCapability> capabilities() {
      return EnumSet.of(TableCapability.BATCH_READ);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      return scan.apply(options);
    }
  }
}
