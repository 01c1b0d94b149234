package dev.cooperator.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.Serializable;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import org.postgresql.Driver;
import org.postgresql.jdbc.PgConnection;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The connections of this JVM to PostgreSQL, one for each slot of a task, which are kept between batches.
 *
 * <p>One that is not used for a while is closed: nobody closes those of an executor when a slot moves
 * elsewhere, and a task without news needs none.
 */
final class SlotConnections {
  private static final Logger LOG = LoggerFactory.getLogger(SlotConnections.class);
  private static final long IDLE_S = 60;

  /** A server may end connections while they are idle: after this time they are tried first. */
  private static final long TRUSTED_NS = TimeUnit.SECONDS.toNanos(1);

  private static final int TRIAL_S = 5;
  private static final long WATCH_MS = 100;
  private static final long WRITE_NS = TimeUnit.SECONDS.toNanos(15);

  /**
   * Where connections go, and as whom.
   *
   * @param address the address of the server that has the task's claims, which the name in {@code url} may not
   *     mean everywhere
   */
  record Server(String url, String address, int port, Map<String, String> settings) implements Serializable {
    static Server of(JsonNode node) {
      Map<String, String> settings = new TreeMap<>();
      node.get("settings").properties().forEach(each -> settings.put(each.getKey(), each.getValue().asText()));
      String address = node.get("address").asText();
      return new Server(node.get("url").asText(), address, node.get("port").asInt(), settings);
    }

    /** Whether it accepts connections. */
    boolean answers() {
      try (Socket socket = new AddressedSockets(address).createSocket()) {
        socket.connect(new InetSocketAddress(port), TRIAL_S * 1000);
        return true;
      } catch (IOException error) {
        return false;
      }
    }

    /** The settings have a password. */
    @Override
    public String toString() {
      return url;
    }
  }

  /** {@code idleSince} null: it is in use. */
  private record Kept(PgConnection connection, Server server, Long idleSince) {}

  private static final Map<String, Kept> KEPT = new HashMap<>();
  private static final ScheduledThreadPoolExecutor CLOCK =
      new ScheduledThreadPoolExecutor(
          1,
          work -> {
            Thread thread = new Thread(work, "connections to PostgreSQL");
            thread.setDaemon(true);
            return thread;
          });

  static {
    CLOCK.setRemoveOnCancelPolicy(true);
  }

  private SlotConnections() {}

  /** Returns a connection for a transaction of the slot: the one that was kept, or a new one. */
  static PgConnection take(String id, Server server) throws SQLException {
    Kept kept;
    synchronized (KEPT) {
      kept = KEPT.remove(id);
      if (kept != null && kept.idleSince() != null && kept.server().equals(server)) {
        KEPT.put(id, new Kept(kept.connection(), server, null));
      }
    }
    if (kept != null && kept.idleSince() != null) {
      boolean isRecent = System.nanoTime() - kept.idleSince() < TRUSTED_NS;
      if (kept.server().equals(server) && (isRecent || kept.connection().isValid(TRIAL_S))) {
        return kept.connection();
      }
      drop(id, kept.connection());
    }
    PgConnection opened = open(server);
    synchronized (KEPT) {
      KEPT.put(id, new Kept(opened, server, null));
    }
    return opened;
  }

  /** Keeps a connection whose transaction has ended, unless the slot was closed. */
  static void give(String id, PgConnection connection) {
    Long now = System.nanoTime();
    synchronized (KEPT) {
      Kept kept = KEPT.get(id);
      if (kept != null && kept.connection() == connection) {
        KEPT.put(id, new Kept(connection, kept.server(), now));
        CLOCK.schedule(() -> closeIfIdle(id, now), IDLE_S, TimeUnit.SECONDS);
        return;
      }
    }
    abort(connection);
  }

  /** Closes a connection, which ends its transaction; it may have been replaced by another one of its slot. */
  static void drop(String id, PgConnection connection) {
    synchronized (KEPT) {
      KEPT.computeIfPresent(id, (key, kept) -> kept.connection() == connection ? null : kept);
    }
    abort(connection);
  }

  /** Closes the connections of slots, and ends what runs there. */
  static void close(Collection<String> ids) {
    for (String id : ids) {
      Kept kept;
      synchronized (KEPT) {
        kept = KEPT.remove(id);
      }
      if (kept != null && kept.idleSince() == null) {
        end(kept.connection());
      } else if (kept != null) {
        quit(kept.connection());
      }
    }
  }

  /**
   * Ends what a connection does once its Spark task is interrupted, until the result is closed.
   *
   * <p>An interrupt alone does not end a thread that waits for a socket. Neither does a network that has
   * swallowed what was written, for many minutes: so a write that takes long ends when the server cannot be
   * reached.
   *
   * @param writingSince when a write began ({@link System#nanoTime}); null: none is under way
   */
  static AutoCloseable watch(
      PgConnection connection, Server server, BooleanSupplier isInterrupted, Supplier<Long> writingSince) {
    AtomicBoolean isEnding = new AtomicBoolean();
    Runnable look =
        () -> {
          Long since = writingSince.get();
          if (isInterrupted.getAsBoolean() && isEnding.compareAndSet(false, true)) {
            start(() -> end(connection));
          } else if (since != null
              && System.nanoTime() - since > WRITE_NS
              && isEnding.compareAndSet(false, true)) {
            start(
                () -> {
                  if (server.answers()) {
                    isEnding.set(false);
                  } else {
                    abort(connection);
                  }
                });
          }
        };
    ScheduledFuture<?> looks = CLOCK.scheduleWithFixedDelay(look, WATCH_MS, WATCH_MS, TimeUnit.MILLISECONDS);
    return () -> looks.cancel(false);
  }

  /** Runs what may wait for a server. */
  private static void start(Runnable work) {
    Thread thread = new Thread(work, "end a transaction of PostgreSQL");
    thread.setDaemon(true);
    thread.start();
  }

  private static void closeIfIdle(String id, Long since) {
    Kept kept;
    synchronized (KEPT) {
      kept = KEPT.get(id);
      if (kept == null || !since.equals(kept.idleSince())) {
        return;
      }
      KEPT.remove(id);
    }
    quit(kept.connection());
  }

  private static PgConnection open(Server server) throws SQLException {
    Properties settings = new Properties();
    settings.putAll(server.settings());
    // The driver holds the rows that it fetches at once: as many as their size allows.
    settings.setProperty(TableReader.LIMIT, String.valueOf(MemoryBudget.RECORD));
    settings.setProperty("adaptiveFetch", "true");
    settings.setProperty("adaptiveFetchMaximum", "2000");
    settings.setProperty("socketFactory", AddressedSockets.class.getName());
    settings.setProperty("socketFactoryArg", server.address());
    Connection opened;
    try {
      opened = new Driver().connect(server.url(), settings);
    } catch (SQLException error) {
      throw new Unreachable(error);
    }
    PgConnection connection = (PgConnection) opened;
    try (Statement statement = connection.createStatement()) {
      // The driver asks for the JVM's own time zone.
      statement.execute("SET timezone = 'UTC'");
      connection.setAutoCommit(false);
    } catch (SQLException error) {
      abort(connection);
      throw error;
    }
    return connection;
  }

  private static void quit(PgConnection connection) {
    try {
      connection.close();
    } catch (SQLException error) {
      LOG.info("closing a connection: {}", error.toString());
    }
  }

  /** Ends a connection in use. A server that waits for a lock does not notice that its client is gone. */
  private static void end(PgConnection connection) {
    try {
      connection.cancelQuery();
    } catch (SQLException error) {
      LOG.info("interrupting a statement: {}", error.toString());
    } finally {
      abort(connection);
    }
  }

  private static void abort(PgConnection connection) {
    try {
      connection.abort(Runnable::run);
    } catch (SQLException error) {
      LOG.info("closing a connection: {}", error.toString());
    }
  }

  /** A connection was refused, or the server did not answer: another attempt may find it changed. */
  static final class Unreachable extends SQLException {
    private static final long serialVersionUID = 1L;

    Unreachable(SQLException error) {
      super(error.getMessage(), error.getSQLState(), error);
    }
  }
}
