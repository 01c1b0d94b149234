package dev.cooperator.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The ends of partitions, asked of each broker in one request.
 *
 * <p>With {@code read_committed} an end is the last stable offset. The ids of topics tell a topic that was
 * deleted and created again; those of topics without news are asked for less often.
 *
 * <p>Nobody waits for a neighbour: a partition that does not answer in time is probed by requests of its own,
 * which no look waits for, until it answers. A probe's answer is no end, since it may be older than positions
 * that were read meanwhile: the partition is asked again. It is not thread-safe.
 */
public final class PartitionEnds implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(PartitionEnds.class);
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final long SELDOM_NS = TimeUnit.SECONDS.toNanos(5);
  private static final int PROBE_MS = 10_000;
  private final Admin admin;
  private final IsolationLevel isolation;
  private final Set<TopicPartition> watched = new HashSet<>();
  private final Map<TopicPartition, Long> ends = new HashMap<>();
  private final Map<TopicPartition, KafkaFuture<ListOffsetsResultInfo>> probes = new HashMap<>();
  private final Map<TopicPartition, String> reasons = new HashMap<>();
  private final Map<TopicPartition, Long> endsBefore = new HashMap<>();
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
      watched.add(new TopicPartition(each.get(0).asText(), each.get(1).asInt()));
    }
    probes.keySet().retainAll(watched);
    reasons.keySet().retainAll(watched);
    endsBefore.keySet().retainAll(watched);
  }

  /**
   * Returns JSON: {@code ends}, {@code [[topic, partition, end], …]} of those that have changed since the last
   * look, {@code unknown}, {@code [[topic, partition, reason], …]} of those that were not answered, and {@code
   * ids}, {@code [[topic, id], …]} of topics whose ids are new since the last look. Now and then it has {@code
   * held}, {@code [[topic, partition, count], …]}: the offsets that an open transaction holds back for as long.
   */
  public String look(long timeoutMs) throws InterruptedException {
    boolean seldom = ids.isEmpty() || System.nanoTime() - identifiedNs >= SELDOM_NS;
    if (seldom) {
      identifiedNs = System.nanoTime();
    }
    probe();
    ObjectNode answer = JSON.createObjectNode();
    answer.putArray("ends");
    answer.putArray("unknown");
    answer.putArray("ids");
    Map<TopicPartition, Long> changed = changed(timeoutMs);
    Map<String, Exception> unidentified = identify(changed.keySet(), answer, seldom, timeoutMs);
    changed.forEach(
        (partition, end) -> {
          Exception error = unidentified.get(partition.topic());
          if (error != null) {
            reasons.put(partition, text(error));
          } else {
            ends.put(partition, end);
            reasons.remove(partition);
            answer.withArray("ends").addArray().add(partition.topic()).add(partition.partition()).add(end);
          }
        });
    reasons.forEach(
        (each, reason) ->
            answer.withArray("unknown").addArray().add(each.topic()).add(each.partition()).add(reason));
    if (seldom && isolation == IsolationLevel.READ_COMMITTED) {
      held(answer, timeoutMs);
    }
    return answer.toString();
  }

  /** Ends the probes that were answered, and begins others in the place of those that failed. */
  private void probe() {
    Set<TopicPartition> failed = new HashSet<>();
    for (TopicPartition each : Set.copyOf(probes.keySet())) {
      KafkaFuture<ListOffsetsResultInfo> probe = probes.get(each);
      if (probe.isCompletedExceptionally()) {
        failed.add(each);
      } else if (probe.isDone()) {
        probes.remove(each);
      }
    }
    if (!failed.isEmpty()) {
      ListOffsetsResult result = asked(failed, isolation, PROBE_MS);
      failed.forEach(each -> probes.put(each, result.partitionResult(each)));
    }
  }

  private Map<TopicPartition, Long> changed(long timeoutMs) throws InterruptedException {
    Set<TopicPartition> asked = new HashSet<>(watched);
    asked.removeAll(probes.keySet());
    Map<TopicPartition, Long> changed = new HashMap<>();
    if (asked.isEmpty()) {
      return changed;
    }
    ListOffsetsResult result = asked(asked, isolation, PROBE_MS);
    long deadlineNs = System.nanoTime() + timeoutMs * 1_000_000;
    for (TopicPartition partition : asked) {
      try {
        long end = got(result.partitionResult(partition), deadlineNs).offset();
        if (!Long.valueOf(end).equals(ends.get(partition))) {
          changed.put(partition, end);
        } else {
          reasons.remove(partition);
        }
      } catch (ExecutionException | TimeoutException error) {
        probes.put(partition, result.partitionResult(partition));
        reasons.put(partition, text(error));
      }
    }
    return changed;
  }

  private ListOffsetsResult asked(Set<TopicPartition> partitions, IsolationLevel level, int timeoutMs) {
    Map<TopicPartition, OffsetSpec> specs = new HashMap<>();
    partitions.forEach(each -> specs.put(each, OffsetSpec.latest()));
    return admin.listOffsets(specs, new ListOffsetsOptions(level).timeoutMs(timeoutMs));
  }

  private static <T> T got(KafkaFuture<T> future, long deadlineNs)
      throws InterruptedException, ExecutionException, TimeoutException {
    return future.get(Math.max(0, deadlineNs - System.nanoTime()), TimeUnit.NANOSECONDS);
  }

  private static String text(Exception error) {
    Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
    return error instanceof TimeoutException ? "no broker has answered" : "" + cause;
  }

  /**
   * Asks for the ids of these partitions' topics and of those that are probed, and of all if it is time to;
   * returns the topics without an answer, with the reason.
   *
   * <p>It comes after the ends were found: an end with a topic's old id cannot be one of the new topic.
   */
  private Map<String, Exception> identify(
      Set<TopicPartition> changed, ObjectNode answer, boolean all, long timeoutMs)
      throws InterruptedException {
    Set<String> topics = new TreeSet<>();
    (all ? watched : changed).forEach(partition -> topics.add(partition.topic()));
    reasons.keySet().forEach(partition -> topics.add(partition.topic()));
    Map<String, Exception> unidentified = new HashMap<>();
    if (topics.isEmpty()) {
      return unidentified;
    }
    long deadlineNs = System.nanoTime() + timeoutMs * 1_000_000;
    Map<String, KafkaFuture<TopicDescription>> described =
        admin.describeTopics(TopicCollection.ofTopicNames(topics)).topicNameValues();
    for (Map.Entry<String, KafkaFuture<TopicDescription>> each : described.entrySet()) {
      String topic = each.getKey();
      try {
        TopicDescription found = got(each.getValue(), deadlineNs);
        Uuid id = found.topicId();
        if (!Uuid.ZERO_UUID.equals(id) && !id.equals(ids.put(topic, id))) {
          answer.withArray("ids").addArray().add(topic).add(id.toString());
        }
        reasons.replaceAll(
            (partition, reason) ->
                partition.topic().equals(topic) && probes.containsKey(partition)
                    ? reason(found, partition, reason)
                    : reason);
      } catch (ExecutionException | TimeoutException error) {
        LOG.debug("the id of {} is unknown: {}", topic, error.toString());
        unidentified.put(topic, error);
        if (error.getCause() instanceof UnknownTopicOrPartitionException) {
          reasons.replaceAll(
              (partition, reason) ->
                  partition.topic().equals(topic) ? missing(topic) : reason);
        }
      }
    }
    return unidentified;
  }

  /** Returns why a partition does not answer, as far as its topic's description tells. */
  private static String reason(TopicDescription topic, TopicPartition partition, String otherwise) {
    for (TopicPartitionInfo each : topic.partitions()) {
      if (each.partition() == partition.partition()) {
        Node leader = each.leader();
        if (leader == null || leader.isEmpty()) {
          return "partition " + partition + " has no leader: start the brokers that have its replicas";
        }
        return otherwise.startsWith("no broker") || otherwise.contains("has no leader")
            ? "broker " + leader.id() + ", the leader of partition " + partition + ", does not answer"
            : otherwise;
      }
    }
    int count = topic.partitions().size();
    return String.format(
        "partition %s does not exist: add partitions to its topic, which has %d, or reset the connector's offsets",
        partition, count);
  }

  private static String missing(String topic) {
    return "topic " + topic + " does not exist: create it again, or remove it from the connector's topics";
  }

  /** Adds the partitions whose last stable offset has not moved since it was called before. */
  private void held(ObjectNode answer, long timeoutMs) throws InterruptedException {
    answer.putArray("held");
    Set<TopicPartition> still = new HashSet<>();
    ends.forEach(
        (each, end) -> {
          if (!reasons.containsKey(each) && end.equals(endsBefore.put(each, end))) {
            still.add(each);
          }
        });
    if (still.isEmpty()) {
      return;
    }
    ListOffsetsResult result = asked(still, IsolationLevel.READ_UNCOMMITTED, (int) timeoutMs);
    long deadlineNs = System.nanoTime() + timeoutMs * 1_000_000;
    for (TopicPartition each : still) {
      try {
        long count = got(result.partitionResult(each), deadlineNs).offset() - ends.get(each);
        if (count > 0) {
          answer.withArray("held").addArray().add(each.topic()).add(each.partition()).add(count);
        }
      } catch (ExecutionException | TimeoutException error) {
        LOG.debug("the high watermark of {} is unknown: {}", each, error.toString());
      }
    }
  }

  @Override
  public void close() {
    admin.close(Duration.ofSeconds(1));
  }
}
