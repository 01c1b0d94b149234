package dev.cooperator.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.io.compress.CompressionCodec;
import org.apache.hadoop.io.compress.CompressionCodecFactory;
import org.apache.hadoop.mapreduce.lib.input.SplitLineReader;
import org.apache.hadoop.mapreduce.lib.input.UncompressedSplitLineReader;
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
    return wholetext ? new Whole(wanted, path, files) : new Lines(wanted, path, files);
  }

  private KafkaException tooLarge(FilePiece wanted, String what) {
    String remedy = MemoryBudget.remedy() + " move the file elsewhere";
    return new KafkaException("file " + directory.path(wanted.path()) + " " + what + " " + remedy);
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

  /** Lines as {@code LineRecordReader} of Hadoop has them, which cannot refuse one that is too long. */
  private final class Lines implements Records {
    private static final int MOST = (int) Math.min(MemoryBudget.RECORD, Integer.MAX_VALUE - 16);
    private final FilePiece piece;
    private final long end;
    private final SplitLineReader reader;
    private final Text line = new Text();
    private long position;

    Lines(FilePiece piece, Path path, FileSystem files) throws IOException {
      this.piece = piece;
      CompressionCodec codec = new CompressionCodecFactory(conf).getCodec(path);
      FSDataInputStream file = files.open(path);
      if (codec != null) {
        end = Long.MAX_VALUE;
        reader = new SplitLineReader(codec.createInputStream(file), conf, null);
        return;
      }
      end = piece.isWhole() ? piece.size() : Math.min(piece.to(), piece.size());
      position = piece.from();
      file.seek(position);
      reader = new UncompressedSplitLineReader(file, conf, null, end - position);
      if (position > 0) {
        // The piece before has read it.
        position += reader.readLine(new Text(), 0, Integer.MAX_VALUE);
      }
    }

    @Override
    public UTF8String next() throws IOException {
      if (position > end && !reader.needAdditionalRecordAfterSplit()) {
        return null;
      }
      int read = reader.readLine(line, MOST + 1, MOST + 1);
      if (line.getLength() > MOST) {
        throw tooLarge(piece, "has a line that begins at byte " + position + " and has");
      }
      boolean isMarked = position == 0 && line.getLength() >= 3 && isByteOrderMark(line.getBytes());
      position += read;
      int skipped = isMarked ? 3 : 0;
      // A file of nothing but the mark has no line.
      boolean isEmpty = read == 0 || isMarked && read == 3;
      return isEmpty ? null : UTF8String.fromBytes(line.getBytes(), skipped, line.getLength() - skipped);
    }

    private static boolean isByteOrderMark(byte[] bytes) {
      return bytes[0] == (byte) 0xEF && bytes[1] == (byte) 0xBB && bytes[2] == (byte) 0xBF;
    }

    @Override
    public void close() throws IOException {
      reader.close();
    }
  }

  private final class Whole implements Records {
    private final FilePiece piece;
    private InputStream input;

    Whole(FilePiece piece, Path path, FileSystem files) throws IOException {
      this.piece = piece;
      CompressionCodec codec = new CompressionCodecFactory(conf).getCodec(path);
      InputStream raw = files.open(path);
      input = codec == null ? raw : codec.createInputStream(raw);
    }

    @Override
    public UTF8String next() throws IOException {
      if (input == null) {
        return null;
      }
      byte[] found = input.readNBytes((int) Math.min(MemoryBudget.RECORD + 1, Integer.MAX_VALUE - 16));
      close();
      if (found.length > MemoryBudget.RECORD) {
        throw tooLarge(piece, "has");
      }
      return UTF8String.fromBytes(found);
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
