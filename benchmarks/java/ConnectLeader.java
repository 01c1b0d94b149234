import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
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
 * Times Kafka Connect's own leader: the metadata bytes of all members in, the assignment bytes of all members out.
 *
 * Arguments: connectors, tasks per connector, members, repetitions. Each repetition plays one life of a group with
 * a new assignor and prints a line for each round: its name, nanoseconds, items assigned, items revoked. What the
 * members do between two rounds is not timed.
 */
public final class ConnectLeader {
    private static final int DELAY_MS = 300_000;
    private static final String URL = "http://worker:8083/";

    /** A clock that moves when it is told to. */
    private static final class Clock implements Time {
        private long nowMs = 1_000_000;

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
            nowMs += ms;
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }
    }

    /** The leader's coordinator, without a network: it knows the configuration and the generation. */
    private static final class Leader extends WorkerCoordinator {
        private final ClusterConfigState config;
        private int generation = 0;

        Leader(ClusterConfigState config, Time time) {
            super(new GroupRebalanceConfig(10_000, 60_000, 3_000, "group", Optional.empty(), null, 100, 1_000),
                new LogContext(), null, new Metrics(), "leader", time, URL, null, null,
                ConnectProtocolCompatibility.SESSIONED, DELAY_MS);
            this.config = config;
        }

        @Override
        public ClusterConfigState configSnapshot() {
            return config;
        }

        @Override
        public int generationId() {
            return generation;
        }

        @Override
        public int lastCompletedGenerationId() {
            return generation - 1;
        }

        @Override
        public String memberId() {
            return "member-00000";
        }

        @Override
        public void leaderState(LeaderState state) {
        }
    }

    /** What one worker runs. */
    private static final class Worker {
        private final Set<String> connectors = new LinkedHashSet<>();
        private final Set<ConnectorTaskId> tasks = new LinkedHashSet<>();

        void apply(ExtendedAssignment share) {
            connectors.removeAll(new ArrayList<>(share.revokedConnectors()));
            share.revokedTasks().forEach(tasks::remove);
            connectors.addAll(share.connectors());
            tasks.addAll(share.tasks());
        }
    }

    private final ClusterConfigState config;
    private final Clock clock = new Clock();
    private final Leader leader;
    private final IncrementalCooperativeAssignor assignor;
    private final TreeMap<String, Worker> workers = new TreeMap<>();
    private long offset = 100;

    private ConnectLeader(ClusterConfigState config, int members) {
        this.config = config;
        this.leader = new Leader(config, clock);
        this.assignor = new IncrementalCooperativeAssignor(new LogContext(), clock, DELAY_MS);
        for (int i = 0; i < members; i++) {
            workers.put(String.format("member-%05d", i), new Worker());
        }
    }

    private void round(String name) {
        leader.generation++;
        List<JoinGroupResponseMember> joined = new ArrayList<>();
        workers.forEach((id, worker) -> {
            ExtendedAssignment running = new ExtendedAssignment((short) 2, (short) 0, "member-00000", URL, offset,
                worker.connectors, worker.tasks, List.of(), List.of(), 0);
            ByteBuffer metadata = IncrementalCooperativeConnectProtocol.serializeMetadata(
                new ExtendedWorkerState(URL, offset, running), true);
            byte[] bytes = new byte[metadata.remaining()];
            metadata.get(bytes);
            joined.add(new JoinGroupResponseMember().setMemberId(id).setMetadata(bytes));
        });
        long began = System.nanoTime();
        Map<String, ByteBuffer> shares =
            assignor.performAssignment("member-00000", ConnectProtocolCompatibility.SESSIONED, joined, leader);
        long nanos = System.nanoTime() - began;
        int assigned = 0;
        int revoked = 0;
        for (Map.Entry<String, ByteBuffer> entry : shares.entrySet()) {
            ExtendedAssignment share =
                IncrementalCooperativeConnectProtocol.deserializeAssignment(entry.getValue());
            assigned += share.connectors().size() + share.tasks().size();
            revoked += share.revokedConnectors().size() + share.revokedTasks().size();
            workers.get(entry.getKey()).apply(share);
        }
        System.out.println(name + " " + nanos + " " + assigned + " " + revoked);
    }

    private void play() {
        round("cold start");
        round("taken up");
        round("no change");
        String newcomer = String.format("member-%05d", workers.size());
        workers.put(newcomer, new Worker());
        round("member joins");
        round("follow-up");
        workers.remove(newcomer);
        round("member lost");
        clock.nowMs += DELAY_MS + 1;
        round("hold ended");
    }

    public static void main(String[] arguments) {
        int connectors = Integer.parseInt(arguments[0]);
        int tasks = Integer.parseInt(arguments[1]);
        int members = Integer.parseInt(arguments[2]);
        Map<String, Integer> counts = new HashMap<>();
        Map<String, Map<String, String>> configs = new HashMap<>();
        Map<ConnectorTaskId, Map<String, String>> taskConfigs = new HashMap<>();
        for (int i = 0; i < connectors; i++) {
            String name = String.format("connector-%05d", i);
            counts.put(name, tasks);
            configs.put(name, Map.of());
            for (int task = 0; task < tasks; task++) {
                taskConfigs.put(new ConnectorTaskId(name, task), Map.of());
            }
        }
        ClusterConfigState config = new ClusterConfigState(100, null, counts, configs, Map.of(), taskConfigs,
            Map.of(), Map.of(), Map.of(), Set.of(), Set.of());
        for (int i = 0; i < Integer.parseInt(arguments[3]); i++) {
            System.out.println("life " + i);
            new ConnectLeader(config, members).play();
        }
    }
}
