package dev.cooperator.spark;

import static dev.cooperator.spark.ValueReader.require;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.types.DataType;

/**
 * Reads Kafka Connect's envelope, {@code {"schema": …, "payload": …}} in this order, as its JsonConverter
 * writes it.
 *
 * <p>Records of a topic have few schemas, and a schema is often longer than its payload. So what precedes a
 * payload is kept with its reader, and found again by its bytes. Jackson reads the rest.
 */
final class EnvelopeValues implements ValueReader {
  private static final int KEPT = 8;
  private static final int DEPTH = 100;

  private static final JsonFactory JSON =
      JsonFactory.builder()
          .streamReadConstraints(StreamReadConstraints.builder().maxNestingDepth(DEPTH).build())
          .build();

  /** Python keeps the last of two members of the same name; here they are refused. */
  private static final ObjectMapper SCHEMAS =
      new ObjectMapper(JsonFactory.builder().enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION).build());

  private record Known(byte[] head, ConnectValue reader) {}

  private final DataType type;
  private final List<Known> known = new ArrayList<>();

  EnvelopeValues(DataType type) {
    this.type = type;
  }

  @Override
  public Object read(byte[] data) {
    try {
      Known found = known(data);
      return payload(data, found.head().length, found.reader());
    } catch (IOException error) {
      throw new Unconverted("it is not valid JSON", error);
    }
  }

  private Known known(byte[] data) throws IOException {
    for (Known each : known) {
      int length = each.head().length;
      if (data.length >= length && Arrays.equals(data, 0, length, each.head(), 0, length)) {
        return each;
      }
    }
    Known found = parsed(data);
    if (known.size() == KEPT) {
      known.remove(0);
    }
    known.add(found);
    return found;
  }

  private Known parsed(byte[] data) throws IOException {
    // Jackson would guess another encoding from a zero, or from a mark.
    require(data.length > 1 && data[0] == '{' && data[1] > 0, "it is no JSON object in UTF-8");
    try (JsonParser parser = SCHEMAS.createParser(data)) {
      parser.nextToken();
      require("schema".equals(parser.nextFieldName()), "its first member is not schema");
      parser.nextToken();
      JsonNode schema = parser.readValueAsTree();
      require("payload".equals(parser.nextFieldName()), "its second member is not payload");
      parser.nextToken();
      int length = (int) parser.currentTokenLocation().getByteOffset();
      ValueReader.requireText(data, 0, length);
      return new Known(Arrays.copyOf(data, length), ConnectValue.of(schema, type));
    }
  }

  private static Object payload(byte[] data, int from, ConnectValue reader) throws IOException {
    int end = data.length - 1;
    while (end >= from && isSpace(data[end])) {
      end--;
    }
    require(end > from && data[end] == '}' && data[from] > 0, "it is no object");
    if (!ValueReader.isPlain(data, from, end)) {
      for (int at = from; at < end; at++) {
        require(data[at] != 0, "it is not valid JSON");
      }
      ValueReader.requireText(data, from, end);
    }
    try (JsonParser parser = JSON.createParser(data, from, end - from)) {
      parser.nextToken();
      Object found = reader.read(parser);
      JsonToken more = parser.nextToken();
      require(more == null, "it has more members than schema and payload");
      return found;
    }
  }

  private static boolean isSpace(byte each) {
    return each == ' ' || each == '\n' || each == '\r' || each == '\t';
  }
}
