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
 * <p>With {@code read_committed} an end is the last stable offset. The ids of topics are asked for less often:
 * they tell a topic that was deleted and created again. It is not thread-safe.
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
    identify(answer, deadlineNs);
    for (TopicPartition partition : watched.keySet()) {
      try {
        long leftNs = Math.max(0, deadlineNs - System.nanoTime());
        long end = result.partitionResult(partition).get(leftNs, TimeUnit.NANOSECONDS).offset();
        Long before = ends.put(partition, end);
        if (before == null || before != end) {
          answer.withArray("ends").addArray().add(partition.topic()).add(partition.partition()).add(end);
        }
      } catch (ExecutionException | TimeoutException error) {
        Throwable cause = error instanceof TimeoutException ? error : error.getCause();
        answer.withArray("unknown").addArray().add(partition.topic()).add(partition.partition()).add("" + cause);
      }
    }
    return answer.toString();
  }

  /** Asks for the ids of topics if it is time to; topics without an answer keep theirs. */
  private void identify(ObjectNode answer, long deadlineNs) throws InterruptedException {
    if (!ids.isEmpty() && System.nanoTime() - identifiedNs < IDENTIFY_NS) {
      return;
    }
    identifiedNs = System.nanoTime();
    Set<String> topics = new TreeSet<>();
    watched.keySet().forEach(partition -> topics.add(partition.topic()));
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
      }
    }
  }

  @Override
  public void close() {
    admin.close(Duration.ofSeconds(1));
  }
}
