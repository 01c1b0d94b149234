import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.ConsumerGroupHeartbeatRequestData.TopicPartitions;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberKey;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMetadataValue;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.MemberState;
import org.apache.kafka.coordinator.group.modern.TargetAssignmentBuilder.ConsumerTargetAssignmentBuilder;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroupMember;
import org.apache.kafka.coordinator.group.modern.consumer.CurrentAssignmentBuilder;

/**
 * Kafka's reconciliation of consumer groups, asked line by line. Partitions are written as TOPIC:NUMBER, or as
 * TOPIC:NUMBER:EPOCH where they have one; topics are numbers. Fields are separated by "|".
 *
 * <pre>
 * step STATE EPOCH PREVIOUS|TARGET_EPOCH|assigned|pending revocation|target|owned, or none|occupied
 *     is answered by STATE EPOCH PREVIOUS|assigned|pending revocation
 * target EPOCH|MEMBER...|old targets, MEMBER=PARTITION,PARTITION...|new targets
 *     is answered by EPOCH|targets that are written
 * </pre>
 */
public final class KafkaReconciliation {
    private static final int TOPICS = 8;

    /** The topics t0 to t7, whose ids are made of their numbers. */
    private static final class Topics implements CoordinatorMetadataImage {
        private record Topic(int number) implements TopicMetadata {
            @Override
            public String name() {
                return "t" + number;
            }

            @Override
            public Uuid id() {
                return topicId(number);
            }

            @Override
            public int partitionCount() {
                return 100;
            }

            @Override
            public List<String> partitionRacks(int partition) {
                return List.of();
            }
        }

        @Override
        public Set<Uuid> topicIds() {
            throw new UnsupportedOperationException();
        }

        @Override
        public Set<String> topicNames() {
            return allTopics();
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(String name) {
            return Optional.of(new Topic(Integer.parseInt(name.substring(1))));
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(Uuid id) {
            return Optional.of(new Topic((int) id.getLeastSignificantBits()));
        }

        @Override
        public CoordinatorMetadataDelta emptyDelta() {
            throw new UnsupportedOperationException();
        }

        @Override
        public long version() {
            return 1;
        }

        @Override
        public boolean isEmpty() {
            return false;
        }
    }

    private static final CoordinatorMetadataImage IMAGE = new Topics();

    private static Uuid topicId(int number) {
        return new Uuid(1, number);
    }

    private static Set<String> allTopics() {
        Set<String> names = new TreeSet<>();
        for (int number = 0; number < TOPICS; number++) {
            names.add("t" + number);
        }
        return names;
    }

    private static Map<Uuid, Set<Integer>> partitions(String text, String separator) {
        Map<Uuid, Set<Integer>> found = new HashMap<>();
        epochs(text, separator).forEach((topic, numbers) -> found.put(topic, numbers.keySet()));
        return found;
    }

    private static Map<Uuid, Map<Integer, Integer>> epochs(String text, String separator) {
        Map<Uuid, Map<Integer, Integer>> found = new HashMap<>();
        for (String word : text.isEmpty() ? new String[0] : text.split(separator)) {
            String[] parts = word.split(":");
            found.computeIfAbsent(topicId(Integer.parseInt(parts[0])), id -> new HashMap<>())
                .put(Integer.parseInt(parts[1]), parts.length > 2 ? Integer.parseInt(parts[2]) : 0);
        }
        return found;
    }

    private static List<TopicPartitions> owned(String text) {
        if (text.equals("none")) {
            return null;
        }
        List<TopicPartitions> found = new ArrayList<>();
        partitions(text, " ").forEach((topic, numbers) ->
            found.add(new TopicPartitions().setTopicId(topic).setPartitions(new ArrayList<>(numbers))));
        return found;
    }

    private static String text(Map<Uuid, Map<Integer, Integer>> epochs) {
        Set<String> words = new TreeSet<>();
        epochs.forEach((topic, numbers) -> numbers.forEach((number, epoch) ->
            words.add(topic.getLeastSignificantBits() + ":" + number + ":" + epoch)));
        return String.join(" ", words);
    }

    private static String step(String[] fields) {
        String[] words = fields[0].split(" ");
        ConsumerGroupMember member = new ConsumerGroupMember.Builder("member")
            .setState(MemberState.valueOf(words[1]))
            .setMemberEpoch(Integer.parseInt(words[2]))
            .setPreviousMemberEpoch(Integer.parseInt(words[3]))
            .setSubscribedTopicNames(new ArrayList<>(allTopics()))
            .setAssignedPartitions(epochs(fields[2], " "))
            .setPartitionsPendingRevocation(epochs(fields[3], " "))
            .build();
        Map<Uuid, Set<Integer>> occupied = partitions(fields[6], " ");
        ConsumerGroupMember after = new CurrentAssignmentBuilder(member)
            .withMetadataImage(IMAGE)
            .withTargetAssignment(Integer.parseInt(fields[1]), new Assignment(partitions(fields[4], " ")))
            .withCurrentPartitionEpoch((topic, number) ->
                occupied.getOrDefault(topic, Set.of()).contains(number) ? 1 : -1)
            .withOwnedTopicPartitions(owned(fields[5]))
            .build();
        return after.state() + " " + after.memberEpoch() + " " + after.previousMemberEpoch()
            + "|" + text(after.assignedPartitions()) + "|" + text(after.partitionsPendingRevocation());
    }

    private static Map<String, Map<Uuid, Set<Integer>>> targets(String text) {
        Map<String, Map<Uuid, Set<Integer>>> found = new HashMap<>();
        for (String word : text.isEmpty() ? new String[0] : text.split(" ")) {
            int equals = word.indexOf('=');
            found.put(word.substring(0, equals), partitions(word.substring(equals + 1), ","));
        }
        return found;
    }

    /** An assignor that returns a given assignment: here Cooperator's planner takes its place. */
    private record Given(Map<String, Map<Uuid, Set<Integer>>> targets) implements PartitionAssignor {
        @Override
        public String name() {
            return "given";
        }

        @Override
        public GroupAssignment assign(GroupSpec group, SubscribedTopicDescriber topics) {
            Map<String, MemberAssignment> members = new HashMap<>();
            targets.forEach((member, partitions) -> members.put(member, new Assignment(partitions)));
            return new GroupAssignment(members);
        }
    }

    private static String target(String[] fields) {
        Map<String, ConsumerGroupMember> members = new HashMap<>();
        for (String id : fields[1].isEmpty() ? new String[0] : fields[1].split(" ")) {
            members.put(id, new ConsumerGroupMember.Builder(id)
                .setSubscribedTopicNames(new ArrayList<>(allTopics())).build());
        }
        Map<String, Assignment> before = new HashMap<>();
        targets(fields[2]).forEach((member, partitions) -> before.put(member, new Assignment(partitions)));
        List<CoordinatorRecord> records = new ConsumerTargetAssignmentBuilder(
                "group", Integer.parseInt(fields[0].split(" ")[1]), new Given(targets(fields[3])))
            .withTime(Time.SYSTEM)
            .withMembers(members)
            .withSubscriptionType(SubscriptionType.HOMOGENEOUS)
            .withTargetAssignment(before)
            .withMetadataImage(IMAGE)
            .build()
            .records();
        int epoch = -1;
        Map<String, String> written = new TreeMap<>();
        for (CoordinatorRecord record : records) {
            if (record.key() instanceof ConsumerGroupTargetAssignmentMemberKey key) {
                var value = (ConsumerGroupTargetAssignmentMemberValue) record.value().message();
                Set<String> words = new TreeSet<>();
                value.topicPartitions().forEach(topic -> topic.partitions().forEach(number ->
                    words.add(topic.topicId().getLeastSignificantBits() + ":" + number)));
                written.put(key.memberId(), key.memberId() + "=" + String.join(",", words));
            } else {
                epoch = ((ConsumerGroupTargetAssignmentMetadataValue) record.value().message()).assignmentEpoch();
            }
        }
        return epoch + "|" + String.join(" ", written.values());
    }

    public static void main(String[] arguments) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] fields = line.split("\\|", -1);
            out.append(line.startsWith("step") ? step(fields) : target(fields)).append('\n');
        }
        System.out.print(out);
    }
}
