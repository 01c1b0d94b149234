package dev.cooperator.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The ends of partitions, asked of each broker in one request.
 *
 * <p>With {@code read_committed} an end is the last stable offset. The ids of topics tell a topic that was
 * deleted and created again; those of topics without news are asked for less often. It is not thread-safe.
 */
public final class PartitionEnds implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(PartitionEnds.class);
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final long IDENTIFY_NS = TimeUnit.SECONDS.toNanos(5);
  private final Admin admin;
  private final IsolationLevel isolation;
  private final Map<TopicPartition, OffsetSpec> watched = new HashMap<>();
  private final Map<TopicPartition, Long> ends = new HashMap<>();
  private final Map<String, Uuid> ids = new HashMap<>();
  private long identifiedNs;

  /** {@code settings}: JSON of the client's settings; {@code isolation.level} is read_committed by default. */
  public PartitionEnds(String settings) throws IOException {
    Map<String, Object> all = new HashMap<>();
    all.put("client.id", "cooperator-ends");
    JSON.readTree(settings).properties().forEach(each -> all.put(each.getKey(), each.getValue().asText()));
    Object level = all.remove("isolation.level");
    isolation =
        "read_uncommitted".equals(level) ? IsolationLevel.READ_UNCOMMITTED : IsolationLevel.READ_COMMITTED;
    admin = Admin.create(all);
  }

  /** Sets the partitions to look at, {@code [[topic, partition], …]}; the next look returns all their ends. */
  public void watch(String partitions) throws IOException {
    watched.clear();
    ends.clear();
    ids.clear();
    for (JsonNode each : JSON.readTree(partitions)) {
      watched.put(new TopicPartition(each.get(0).asText(), each.get(1).asInt()), OffsetSpec.latest());
    }
  }

  /**
   * Returns JSON: {@code ends}, {@code [[topic, partition, end], …]} of those that have changed since the last
   * look, {@code unknown}, {@code [[topic, partition, reason], …]} of those that were not answered, and {@code
   * ids}, {@code [[topic, id], …]} of topics whose ids are new since the last look.
   */
  public String look(long timeoutMs) throws InterruptedException {
    ListOffsetsOptions options = new ListOffsetsOptions(isolation).timeoutMs((int) timeoutMs);
    ListOffsetsResult result = admin.listOffsets(watched, options);
    long deadlineNs = System.nanoTime() + timeoutMs * 1_000_000;
    ObjectNode answer = JSON.createObjectNode();
    answer.putArray("ends");
    answer.putArray("unknown");
    answer.putArray("ids");
    Map<TopicPartition, Long> changed = new HashMap<>();
    for (TopicPartition partition : watched.keySet()) {
      try {
        long leftNs = Math.max(0, deadlineNs - System.nanoTime());
        long end = result.partitionResult(partition).get(leftNs, TimeUnit.NANOSECONDS).offset();
        if (!Long.valueOf(end).equals(ends.get(partition))) {
          changed.put(partition, end);
        }
      } catch (ExecutionException | TimeoutException error) {
        unknown(answer, partition, error);
      }
    }
    Map<String, Exception> unidentified = identify(changed.keySet(), answer, deadlineNs);
    changed.forEach(
        (partition, end) -> {
          Exception error = unidentified.get(partition.topic());
          if (error != null) {
            unknown(answer, partition, error);
          } else {
            ends.put(partition, end);
            answer.withArray("ends").addArray().add(partition.topic()).add(partition.partition()).add(end);
          }
        });
    return answer.toString();
  }

  private static void unknown(ObjectNode answer, TopicPartition partition, Exception error) {
    Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
    answer.withArray("unknown").addArray().add(partition.topic()).add(partition.partition()).add("" + cause);
  }

  /**
   * Asks for the ids of these partitions' topics, and of all if it is time to; returns the topics without an
   * answer, with the reason.
   *
   * <p>It comes after the ends were found: an end with a topic's old id cannot be one of the new topic.
   */
  private Map<String, Exception> identify(Set<TopicPartition> changed, ObjectNode answer, long deadlineNs)
      throws InterruptedException {
    boolean all = ids.isEmpty() || System.nanoTime() - identifiedNs >= IDENTIFY_NS;
    Set<String> topics = new TreeSet<>();
    (all ? watched.keySet() : changed).forEach(partition -> topics.add(partition.topic()));
    Map<String, Exception> unidentified = new HashMap<>();
    if (topics.isEmpty()) {
      return unidentified;
    }
    if (all) {
      identifiedNs = System.nanoTime();
    }
    Map<String, KafkaFuture<TopicDescription>> described =
        admin.describeTopics(TopicCollection.ofTopicNames(topics)).topicNameValues();
    for (Map.Entry<String, KafkaFuture<TopicDescription>> each : described.entrySet()) {
      try {
        long leftNs = Math.max(0, deadlineNs - System.nanoTime());
        Uuid id = each.getValue().get(leftNs, TimeUnit.NANOSECONDS).topicId();
        if (!Uuid.ZERO_UUID.equals(id) && !id.equals(ids.put(each.getKey(), id))) {
          answer.withArray("ids").addArray().add(each.getKey()).add(id.toString());
        }
      } catch (ExecutionException | TimeoutException error) {
        LOG.debug("the id of {} is unknown: {}", each.getKey(), error.toString());
        unidentified.put(each.getKey(), error);
      }
    }
    return unidentified;
  }

  @Override
  public void close() {
    admin.close(Duration.ofSeconds(1));
  }
}
