package dev.cooperator.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.util.List;
import java.util.Objects;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.io.compress.CompressionCodec;
import org.apache.hadoop.io.compress.CompressionCodecFactory;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.apache.hadoop.mapreduce.lib.input.FileSplit;
import org.apache.hadoop.mapreduce.lib.input.LineRecordReader;
import org.apache.hadoop.mapreduce.task.TaskAttemptContextImpl;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Reads the pieces of {@link SlotWork#current} as rows. Lines, encodings and compression are those of Hadoop's
 * text files, as in Spark's own source. One row object serves all records.
 */
final class PiecesReader implements PartitionReader<InternalRow> {
  private final List<String> columns;
  private final FileDirectory directory;
  private final boolean wholetext;
  private final Configuration conf;
  private final GenericInternalRow row;
  private SlotWork work;
  private long[] counts;
  private int unit;
  private int piece;
  private FilePiece current;
  private Records records;

  /** Returns the next record, or null. */
  private interface Records extends AutoCloseable {
    UTF8String next() throws IOException;

    @Override
    void close() throws IOException;
  }

  PiecesReader(List<String> columns, String root, boolean wholetext, Configuration conf) {
    this.columns = columns;
    this.directory = new FileDirectory(root, conf);
    this.wholetext = wholetext;
    this.conf = conf;
    this.row = new GenericInternalRow(columns.size());
  }

  @Override
  public boolean next() {
    if (work == null) {
      work = SlotWork.current();
      counts = new long[work.units.size()];
    }
    while (unit < work.units.size()) {
      List<FilePiece> pieces = work.units.get(unit).pieces();
      if (piece == pieces.size()) {
        unit++;
        piece = 0;
        continue;
      }
      UTF8String line = record(pieces.get(piece));
      if (line == null) {
        piece++;
        continue;
      }
      counts[unit]++;
      for (int index = 0; index < columns.size(); index++) {
        boolean isLine = columns.get(index).equals(FilePieces.LINE);
        row.update(index, isLine ? line : UTF8String.fromString(current.path()));
      }
      return true;
    }
    work.readToTheEnd(counts);
    return false;
  }

  @Override
  public InternalRow get() {
    return row;
  }

  @Override
  public void close() throws IOException {
    if (records != null) {
      records.close();
      records = null;
    }
  }

  /** Returns the next record of a piece; null: there is none, and the piece is closed. */
  private UTF8String record(FilePiece wanted) {
    try {
      if (records == null) {
        current = wanted;
        records = open(wanted);
      }
      UTF8String found = records.next();
      if (found == null) {
        close();
      }
      return found;
    } catch (FileNotFoundException error) {
      if (wanted.from() == 0) {
        throw new Gone("file " + directory.path(wanted.path()) + " has vanished before it was read");
      }
      throw unfinished(wanted, "has vanished");
    } catch (IOException error) {
      throw new KafkaException("file " + directory.path(wanted.path()) + " cannot be read: " + error, error);
    }
  }

  private Records open(FilePiece wanted) throws IOException {
    Path path = directory.path(wanted.path());
    FileSystem files = directory.fileSystem();
    if (wanted.from() > 0) {
      FileStatus now = files.getFileStatus(path);
      if (now.getLen() != wanted.size() || now.getModificationTime() != wanted.modifiedMs()) {
        throw unfinished(wanted, "has changed");
      }
    }
    return wholetext ? new Whole(path, files) : new Lines(wanted, path);
  }

  private KafkaException unfinished(FilePiece wanted, String what) {
    return new KafkaException(
        "file "
            + directory.path(wanted.path())
            + " "
            + what
            + " after its first "
            + wanted.from()
            + " bytes were read: put it back as it was; or stop the Connector and alter the file's offsets, to"
            + " {\"modified_ms\": 0} to leave out the rest, or to null to read it again");
  }

  private final class Lines implements Records {
    private final LineRecordReader reader = new LineRecordReader();

    Lines(FilePiece wanted, Path path) throws IOException {
      long end = wanted.isWhole() ? wanted.size() : Math.min(wanted.to(), wanted.size());
      FileSplit split = new FileSplit(path, wanted.from(), end - wanted.from(), new String[0]);
      reader.initialize(split, new TaskAttemptContextImpl(conf, new TaskAttemptID()));
    }

    @Override
    public UTF8String next() throws IOException {
      if (!reader.nextKeyValue()) {
        return null;
      }
      Text line = reader.getCurrentValue();
      return UTF8String.fromBytes(line.getBytes(), 0, line.getLength());
    }

    @Override
    public void close() throws IOException {
      reader.close();
    }
  }

  private final class Whole implements Records {
    private InputStream input;

    Whole(Path path, FileSystem files) throws IOException {
      CompressionCodec codec = new CompressionCodecFactory(conf).getCodec(path);
      InputStream raw = files.open(path);
      input = codec == null ? raw : codec.createInputStream(raw);
    }

    @Override
    public UTF8String next() throws IOException {
      if (input == null) {
        return null;
      }
      UTF8String found = UTF8String.fromBytes(Objects.requireNonNull(input).readAllBytes());
      close();
      return found;
    }

    @Override
    public void close() throws IOException {
      if (input != null) {
        input.close();
        input = null;
      }
    }
  }

  /** The next listing tells whether the file is still wanted. */
  static final class Gone extends RetriableException {
    private static final long serialVersionUID = 1L;

    Gone(String message) {
      super(message);
    }
  }
}
