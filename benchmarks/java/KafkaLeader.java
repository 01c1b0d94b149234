import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.kafka.clients.GroupRebalanceConfig;
import org.apache.kafka.common.message.JoinGroupResponseData.JoinGroupResponseMember;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.runtime.distributed.ConnectProtocolCompatibility;
import org.apache.kafka.connect.runtime.distributed.ExtendedAssignment;
import org.apache.kafka.connect.runtime.distributed.ExtendedWorkerState;
import org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeAssignor;
import org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeConnectProtocol;
import org.apache.kafka.connect.runtime.distributed.WorkerCoordinator;
import org.apache.kafka.connect.storage.ClusterConfigState;
import org.apache.kafka.connect.util.ConnectorTaskId;

/**
 * Kafka Connect's own leader, asked through standard input and output: metadata bytes of all members in, assignment
 * bytes of all members out. Items are written as connector:number, -1 for the connector's instance.
 *
 * <pre>
 * incarnation DELAY_MS                                   forget everything
 * config                                                 forget the connectors
 * connector NAME TASKS
 * round TIME_MS GENERATION COMPLETED LEADER PROCESS OFFSET    PROCESS: whose memory of earlier rounds the leader has
 * member ID OFFSET ITEM...
 * decide          is answered by ERROR DELAY_MS NANOSECONDS, a line ID assigned ITEM... revoked ITEM... a member, done
 * </pre>
 */
public final class KafkaLeader {
    private static final String URL = "http://worker:8083/";

    /** A clock that says what it was told. */
    private static final class Clock implements Time {
        private long nowMs;

        @Override
        public long milliseconds() {
            return nowMs;
        }

        @Override
        public long nanoseconds() {
            return nowMs * 1_000_000;
        }

        @Override
        public void sleep(long ms) {
            throw new UnsupportedOperationException();
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }
    }

    /** The leader's coordinator, without a network. */
    private static final class Coordinator extends WorkerCoordinator {
        private ClusterConfigState config;
        private int generation;
        private int completed;
        private String leader;

        Coordinator(Time time, int delayMs) {
            super(new GroupRebalanceConfig(10_000, 60_000, 3_000, "group", Optional.empty(), null, 100, 1_000),
                new LogContext(), null, new Metrics(), "leader", time, URL, null, null,
                ConnectProtocolCompatibility.SESSIONED, delayMs);
        }

        @Override
        public ClusterConfigState configSnapshot() {
            return config;
        }

        @Override
        public ClusterConfigState configFreshSnapshot() {
            return config;
        }

        @Override
        public int generationId() {
            return generation;
        }

        @Override
        public int lastCompletedGenerationId() {
            return completed;
        }

        @Override
        public String memberId() {
            return leader;
        }

        @Override
        public void leaderState(LeaderState state) {
        }
    }

    private final PrintStream out = new PrintStream(new BufferedOutputStream(System.out, 1 << 16), false);
    private final Clock clock = new Clock();
    private final Map<String, IncrementalCooperativeAssignor> memories = new HashMap<>();
    private final List<JoinGroupResponseMember> joined = new ArrayList<>();
    private Map<String, Integer> counts = new HashMap<>();
    private Map<String, Map<String, String>> configs = new HashMap<>();
    private Map<ConnectorTaskId, Map<String, String>> tasks = new HashMap<>();
    private Coordinator coordinator;
    private int delayMs;
    private String process;

    private void take(String[] words) {
        switch (words[0]) {
            case "incarnation" -> {
                delayMs = Integer.parseInt(words[1]);
                memories.clear();
                coordinator = new Coordinator(clock, delayMs);
            }
            case "config" -> {
                counts = new HashMap<>();
                configs = new HashMap<>();
                tasks = new HashMap<>();
            }
            case "connector" -> {
                counts.put(words[1], Integer.parseInt(words[2]));
                configs.put(words[1], Map.of());
                for (int task = 0; task < counts.get(words[1]); task++) {
                    tasks.put(new ConnectorTaskId(words[1], task), Map.of());
                }
            }
            case "round" -> {
                clock.nowMs = Long.parseLong(words[1]);
                coordinator.generation = Integer.parseInt(words[2]);
                coordinator.completed = Integer.parseInt(words[3]);
                coordinator.leader = words[4];
                process = words[5];
                coordinator.config = new ClusterConfigState(Long.parseLong(words[6]), null, counts, configs, Map.of(),
                    tasks, Map.of(), Map.of(), Map.of(), Set.of(), Set.of());
                joined.clear();
            }
            case "member" -> joined.add(member(words));
            case "decide" -> decide();
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    private static JoinGroupResponseMember member(String[] words) {
        List<String> connectors = new ArrayList<>();
        List<ConnectorTaskId> running = new ArrayList<>();
        for (int i = 3; i < words.length; i++) {
            int colon = words[i].lastIndexOf(':');
            int number = Integer.parseInt(words[i].substring(colon + 1));
            String connector = words[i].substring(0, colon);
            if (number < 0) {
                connectors.add(connector);
            } else {
                running.add(new ConnectorTaskId(connector, number));
            }
        }
        long offset = Long.parseLong(words[2]);
        ExtendedAssignment allocation = new ExtendedAssignment((short) 2, (short) 0, "", URL, offset, connectors,
            running, List.of(), List.of(), 0);
        ByteBuffer metadata = IncrementalCooperativeConnectProtocol.serializeMetadata(
            new ExtendedWorkerState(URL, offset, allocation), true);
        byte[] bytes = new byte[metadata.remaining()];
        metadata.get(bytes);
        return new JoinGroupResponseMember().setMemberId(words[1]).setMetadata(bytes);
    }

    private void decide() {
        IncrementalCooperativeAssignor assignor = memories.computeIfAbsent(process,
            name -> new IncrementalCooperativeAssignor(new LogContext(), clock, delayMs));
        long began = System.nanoTime();
        Map<String, ByteBuffer> shares = assignor.performAssignment(
            coordinator.leader, ConnectProtocolCompatibility.SESSIONED, joined, coordinator);
        long nanos = System.nanoTime() - began;
        boolean first = true;
        for (Map.Entry<String, ByteBuffer> entry : shares.entrySet()) {
            ExtendedAssignment share =
                IncrementalCooperativeConnectProtocol.deserializeAssignment(entry.getValue());
            if (first) {
                out.println(share.error() + " " + share.delay() + " " + nanos);
                first = false;
            }
            StringBuilder line = new StringBuilder(entry.getKey()).append(" assigned");
            share.connectors().forEach(name -> line.append(' ').append(name).append(":-1"));
            share.tasks().forEach(task -> line.append(' ').append(task.connector()).append(':').append(task.task()));
            line.append(" revoked");
            share.revokedConnectors().forEach(name -> line.append(' ').append(name).append(":-1"));
            share.revokedTasks().forEach(
                task -> line.append(' ').append(task.connector()).append(':').append(task.task()));
            out.println(line);
        }
        out.println("done");
        out.flush();
    }

    public static void main(String[] arguments) throws IOException {
        KafkaLeader leader = new KafkaLeader();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            leader.take(line.split(" "));
        }
    }
}
