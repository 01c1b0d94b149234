package dev.cooperator.spark;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Reads ranges as rows. One row object serves all records, and holds the client's arrays without a copy: each
 * row must be used before the next one is read, as Spark's operators do.
 */
final class RangesReader implements PartitionReader<InternalRow> {
  private final List<OffsetRange> planned;
  private final Supplier<RangeConsumer> consumers;
  private final Consumer<RangeConsumer> atTheEnd;
  private final Column[] columns;
  private final GenericInternalRow row;
  private final long most;
  private final Map<String, UTF8String> topics = new HashMap<>();
  private RangeConsumer consumer;
  private SlotWork work;
  private boolean ended;
  private long bytes;

  private interface Column {
    Object of(ConsumerRecord<byte[], byte[]> record);
  }

  /**
   * Without {@code planned} ranges it reads those of {@link SlotWork#current}. Throws {@link
   * MemoryBudget.Exceeded} for more than {@code most} bytes, unless they are one record.
   */
  RangesReader(
      List<String> columns,
      long most,
      List<OffsetRange> planned,
      Supplier<RangeConsumer> consumers,
      Consumer<RangeConsumer> atTheEnd) {
    this.atTheEnd = atTheEnd;
    this.most = most;
    this.planned = planned;
    this.consumers = consumers;
    this.columns = columns.stream().map(this::column).toArray(Column[]::new);
    this.row = new GenericInternalRow(columns.size());
  }

  @Override
  public boolean next() {
    if (ended) {
      return false;
    }
    if (consumer == null) {
      begin();
    }
    ConsumerRecord<byte[], byte[]> record = consumer.next();
    if (record == null) {
      end();
      return false;
    }
    if (work != null) {
      work.last = record;
    }
    long size = Math.max(0, record.serializedKeySize()) + Math.max(0, record.serializedValueSize());
    if (bytes > 0 && bytes + size > most) {
      throw new MemoryBudget.Exceeded(
          "the batch has more than " + most + " bytes up to offset " + record.offset() + " of " + record.topic()
              + "-" + record.partition());
    }
    bytes += size;
    read(record);
    return true;
  }

  /** Makes it the row of a record. */
  RangesReader read(ConsumerRecord<byte[], byte[]> record) {
    for (int index = 0; index < columns.length; index++) {
      row.update(index, columns[index].of(record));
    }
    return this;
  }

  @Override
  public InternalRow get() {
    return row;
  }

  /** A consumer that has not read its ranges to their ends is closed: something may be wrong with it. */
  @Override
  public void close() {
    if (consumer != null) {
      RangeConsumers.close(consumer);
      consumer = null;
    }
  }

  private void begin() {
    if (planned == null) {
      work = SlotWork.current();
    }
    consumer = consumers.get();
    consumer.begin(work == null ? planned : work.ranges());
  }

  private void end() {
    ended = true;
    if (work != null) {
      work.readToTheEnd(work.ranges().stream().mapToLong(consumer::count).toArray());
    }
    atTheEnd.accept(consumer);
    RangeConsumers.give(consumer);
    consumer = null;
  }

  private Column column(String name) {
    switch (name) {
      case "key":
        return ConsumerRecord::key;
      case "value":
        return ConsumerRecord::value;
      case "topic":
        return record -> topics.computeIfAbsent(record.topic(), UTF8String::fromString);
      case "partition":
        return ConsumerRecord::partition;
      case "offset":
        return ConsumerRecord::offset;
      case "timestamp":
        return record -> inMicroseconds(record.timestamp());
      case KafkaRanges.TIMESTAMP_MS:
        return ConsumerRecord::timestamp;
      case KafkaRanges.HEADERS:
        return RangesReader::headers;
      default:
        throw new IllegalArgumentException("KafkaRanges has no column " + name);
    }
  }

  /** No value for a time that no TIMESTAMP is: a producer may have counted nanoseconds. */
  private static Long inMicroseconds(long timeMs) {
    return Math.abs(timeMs) > Long.MAX_VALUE / 1000 ? null : timeMs * 1000;
  }

  private static Object headers(ConsumerRecord<byte[], byte[]> record) {
    Header[] headers = record.headers().toArray();
    if (headers.length == 0) {
      return null; // as Spark's source does
    }
    Object[] rows = new Object[headers.length];
    for (int index = 0; index < headers.length; index++) {
      UTF8String key = UTF8String.fromString(headers[index].key());
      rows[index] = new GenericInternalRow(new Object[] {key, headers[index].value()});
    }
    return new GenericArrayData(rows);
  }
}
