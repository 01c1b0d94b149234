package dev.cooperator.spark;

import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.serialization.Deserializer;

/**
 * Lets a poll return no more than {@link MemoryBudget#POLL} bytes, or one record.
 *
 * <p>The client bounds a poll by a number of records, and a fetch by compressed bytes. A record that is refused here ends
 * the poll if that has records already; the next poll begins with it. It is not thread-safe, as consumers.
 */
final class BoundedBytes implements Deserializer<byte[]> {
  private long bytes;

  /** Begins a poll. */
  void restart() {
    bytes = 0;
  }

  @Override
  public byte[] deserialize(String topic, byte[] data) {
    if (bytes > MemoryBudget.POLL) {
      throw new Enough();
    }
    bytes += data == null ? 0 : data.length;
    return data;
  }

  /** It has no trace, since it is no failure. */
  private static final class Enough extends SerializationException {
    private static final long serialVersionUID = 1L;

    Enough() {
      super("the poll has enough");
    }

    @Override
    public Throwable fillInStackTrace() {
      return this;
    }
  }
}
