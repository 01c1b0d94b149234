package dev.cooperator.spark;

import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.unsafe.types.UTF8String;

/** Writes the rows of one slot's Spark task, and the positions that they reach, in one transaction. */
final class SlotWriter {
  /** Where a slot's records go, for all batches of an attempt. */
  record Target(Map<String, String> settings, String idPrefix, String positions, Columns columns)
      implements Serializable {
    List<String> ids(int slots) {
      return IntStream.range(0, slots).mapToObj(slot -> id(idPrefix, slot)).toList();
    }

    static String id(String prefix, int slot) {
      return prefix + "/" + slot;
    }
  }

  /** The indexes of a row's columns; negative: the rows have no such column. */
  record Columns(int topic, int partition, int key, int value, int headers, int timestamp)
      implements Serializable {}

  private final Target target;
  private final SlotWork work;
  private final String id;
  private final KafkaProducer<byte[], byte[]> producer;
  private final Map<UTF8String, String> topics = new HashMap<>();
  private volatile Exception failure;
  private final Callback callback = (metadata, error) -> failed(error);

  /** Begins the transaction. Throws {@link NotOpen} if the session's producer of the slot is not here. */
  SlotWriter(Target target, SlotWork work) {
    this.target = target;
    this.work = work;
    this.id = Target.id(target.idPrefix(), work.slot);
    this.producer = SlotProducers.of(id, work.session);
    if (producer == null) {
      throw new NotOpen(id);
    }
    producer.beginTransaction();
  }

  void write(InternalRow row) throws Exception {
    check();
    Columns columns = target.columns();
    String topic = isNull(row, columns.topic()) ? work.topic : topic(row.getUTF8String(columns.topic()));
    if (topic == null) {
      throw new IllegalArgumentException("a row has no topic: column topic is null");
    }
    Integer partition = isNull(row, columns.partition()) ? null : row.getInt(columns.partition());
    Long timestampMs = isNull(row, columns.timestamp()) ? null : row.getLong(columns.timestamp());
    byte[] key = isNull(row, columns.key()) ? null : row.getBinary(columns.key());
    producer.send(
        new ProducerRecord<>(
            topic,
            partition,
            timestampMs == null || timestampMs < 0 ? null : timestampMs,
            key,
            isNull(row, columns.value()) ? null : row.getBinary(columns.value()),
            isNull(row, columns.headers()) ? null : headers(row.getArray(columns.headers()))),
        (metadata, error) ->
            failed(error instanceof RecordTooLargeException ? tooLarge(topic, key, error) : error));
    // A refusal of the client itself is told before send() returns.
    check();
  }

  /** Writes what stands for the records that are left out; returns their number. */
  long writeLetters() {
    for (SlotWork.Letter letter : work.letters) {
      List<Header> headers = new ArrayList<>();
      letter.headers().forEach(each -> headers.add(new RecordHeader(each.name(), each.value())));
      producer.send(
          new ProducerRecord<>(letter.topic(), null, letter.key(), letter.value(), headers), callback);
    }
    return work.letters.size();
  }

  /** Commits the rows with the positions, if the slot's ranges were read to their ends. */
  void commit() throws Exception {
    work.checkIsRead();
    for (SlotWork.Unit unit : work.units) {
      producer.send(
          new ProducerRecord<>(
              target.positions(),
              unit.partition() < 0 ? null : unit.partition(),
              unit.key().getBytes("UTF-8"),
              unit.value().getBytes("UTF-8")),
          callback);
      for (SlotWork.Beside each : unit.beside()) {
        producer.send(
            new ProducerRecord<>(
                each.topic(),
                each.partition(),
                each.key().getBytes("UTF-8"),
                each.value().getBytes("UTF-8")),
            callback);
      }
    }
    try {
      producer.commitTransaction();
    } catch (KafkaException error) {
      check(); // The reason why a record was refused says more.
      throw error;
    }
  }

  /**
   * Drops what is not committed, and keeps the slot's producer: the batch may be converted in another way.
   * Returns {@code failed}, or the failure to do so.
   */
  SlotResult undo(SlotResult failed) {
    try {
      producer.abortTransaction();
      return failed;
    } catch (RuntimeException error) {
      abort();
      return SlotResult.failed(error);
    }
  }

  /** Drops what is not committed. The slot's producer is gone afterwards. */
  void abort() {
    SlotProducers.drop(id, producer);
  }

  /** Names what to raise where the client, or the broker, refuses a record. */
  private static Exception tooLarge(String topic, byte[] key, Exception refusal) {
    return new IllegalArgumentException(
        "a record with key "
            + (key == null ? "null" : new String(key, StandardCharsets.UTF_8))
            + " exceeds option 'message.max.bytes', or max.message.bytes of topic "
            + topic
            + "; raise both",
        refusal);
  }

  private void failed(Exception error) {
    if (error != null && failure == null) {
      failure = error;
    }
  }

  private void check() throws Exception {
    if (failure != null) {
      throw failure;
    }
  }

  private static boolean isNull(InternalRow row, int column) {
    return column < 0 || row.isNullAt(column);
  }

  private String topic(UTF8String name) {
    String known = topics.get(name);
    if (known == null) {
      known = name.toString();
      topics.put(name.clone(), known); // The row's memory is used again for the next row.
    }
    return known;
  }

  private static List<Header> headers(ArrayData array) {
    List<Header> found = new ArrayList<>(array.numElements());
    for (int index = 0; index < array.numElements(); index++) {
      InternalRow header = array.getStruct(index, 2);
      found.add(
          new RecordHeader(
              header.getUTF8String(0).toString(), header.isNullAt(1) ? null : header.getBinary(1)));
    }
    return found;
  }

  /** The producer of the slot was not opened in this JVM, or was closed after a failure. */
  static final class NotOpen extends KafkaException {
    private static final long serialVersionUID = 1L;

    NotOpen(String id) {
      super("no producer of " + id + " is open here for this session");
    }
  }
}
