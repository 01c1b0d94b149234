package dev.cooperator.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;
import java.util.List;
import java.util.stream.IntStream;

/**
 * The rows of one table that a batch reads.
 *
 * @param pool names the task, whose slots have a connection each
 * @param sql the SELECT, which returns the text of each of the columns
 * @param digest of the table as it was described
 * @param digestSql the SELECT of the digest as it is now; it has no row without the table
 * @param row indexes of the columns by which messages name a row
 * @param topic where its records go
 * @param key null: records have no key, or are made of the rows elsewhere
 */
record TableRead(
    SlotConnections.Server server,
    String pool,
    String table,
    String sql,
    String digest,
    String digestSql,
    List<TableColumn> columns,
    int[] row,
    String topic,
    RowEncoder.Form key,
    RowEncoder.Form value)
    implements Serializable {

  static TableRead of(JsonNode node) {
    return of(node, node.get("server"));
  }

  /** {@code server} has the name of the pool, too. */
  static TableRead of(JsonNode node, JsonNode server) {
    return new TableRead(
        SlotConnections.Server.of(server),
        server.get("pool").asText(),
        node.get("table").asText(),
        node.get("sql").asText(),
        node.get("digest").asText(),
        node.get("digest_sql").asText(),
        TableColumn.list(node.get("columns")),
        IntStream.range(0, node.get("row").size()).map(at -> node.get("row").get(at).asInt()).toArray(),
        node.path("topic").asText(),
        RowEncoder.Form.of(node.path("key")),
        RowEncoder.Form.of(node.path("value")));
  }

  static String id(String pool, int slot) {
    return pool + "/tables/" + slot;
  }
}
