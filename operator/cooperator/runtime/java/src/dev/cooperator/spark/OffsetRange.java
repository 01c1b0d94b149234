package dev.cooperator.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;

/**
 * The records of a partition from an offset up to, and without, another, but those at the offsets that are {@code
 * leftOut}.
 */
record OffsetRange(String topic, int partition, long from, long to, Set<Long> leftOut) implements Serializable {
  private static final ObjectMapper JSON = new ObjectMapper();

  TopicPartition place() {
    return new TopicPartition(topic, partition);
  }

  @Override
  public String toString() {
    return "offsets " + from + " to " + to + " of " + topic + "-" + partition;
  }

  /**
   * Reads {@code ["topic", partition, from, to]}, where offsets are left out {@code ["topic", partition, from, [to,
   * offset, …]]}; further elements are ignored.
   */
  static OffsetRange of(JsonNode node) {
    JsonNode to = node.get(3);
    Set<Long> leftOut = new HashSet<>();
    for (int index = 1; index < to.size(); index++) {
      leftOut.add(to.get(index).asLong());
    }
    return new OffsetRange(
        node.get(0).asText(),
        node.get(1).asInt(),
        node.get(2).asLong(),
        to.isArray() ? to.get(0).asLong() : to.asLong(),
        leftOut);
  }

  /** Reads the ranges of Spark partitions: a list of lists of ranges. */
  static List<List<OffsetRange>> partitions(String text) {
    List<List<OffsetRange>> found = new ArrayList<>();
    try {
      for (JsonNode partition : JSON.readTree(text)) {
        List<OffsetRange> ranges = new ArrayList<>();
        partition.forEach(range -> ranges.add(of(range)));
        found.add(ranges);
      }
    } catch (java.io.IOException | NullPointerException error) {
      throw new IllegalArgumentException(
          "option ranges: use [[[topic, partition, from, to], …], …], not " + text, error);
    }
    return found;
  }
}
