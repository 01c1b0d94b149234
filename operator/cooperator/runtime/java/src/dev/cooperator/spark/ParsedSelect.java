package dev.cooperator.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.analysis.CTESubstitution;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction;
import org.apache.spark.sql.catalyst.analysis.UnresolvedGenerator;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableValuedFunction;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.LambdaFunction;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedArgumentExpression;
import org.apache.spark.sql.catalyst.expressions.RLike;
import org.apache.spark.sql.catalyst.expressions.UnaryMinus;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedWith;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SparkSqlParser;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Product;
import scala.collection.Iterable;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A SELECT as Spark's own parser reads it, before anything is resolved or run. The walk visits every part of
 * every node, and not only what Spark calls children: a node hides its subqueries where it likes. Python
 * decides what is allowed ({@code parsed_select.py}).
 */
public final class ParsedSelect {
  private static final String SPARKS = "org.apache.spark.sql.catalyst.";
  private static final int MOST_PARTS = 1_000_000;
  private static final int MOST_CHARACTERS = 2_000;

  private record Part(Object value, boolean isRepeated) {}

  private final SparkSession session;
  private final LogicalPlan plan;
  private final TreeSet<String> nodes = new TreeSet<>();
  private final List<List<String>> relations = new ArrayList<>();
  private final List<Map<String, Object>> calls = new ArrayList<>();

  private ParsedSelect(SparkSession session, LogicalPlan plan) {
    this.session = session;
    this.plan = plan;
    walk(plan);
    // Afterwards, the names that are left are those that Spark looks up in its catalogs.
    relations.clear();
    calls.clear();
    walk(CTESubstitution.apply(plan));
  }

  /** Parses the text as {@code session.sql} does. */
  public static ParsedSelect of(SparkSession session, String sql) {
    return session.withActive(() -> ParsedSelect.<RuntimeException>parsed(session, sql));
  }

  /** ParseException passes as it is: Scala has no checked exceptions. */
  @SuppressWarnings("unchecked")
  private static <E extends Exception> ParsedSelect parsed(SparkSession session, String sql) throws E {
    try {
      return new ParsedSelect(session, session.sessionState().sqlParser().parsePlan(sql));
    } catch (Exception error) {
      throw (E) error;
    }
  }

  /** The rows of the very plan that was read. */
  public Dataset<Row> rows() {
    return Dataset.ofRows(session, plan);
  }

  public String summary() throws JsonProcessingException {
    return new ObjectMapper()
        .writeValueAsString(Map.of("nodes", nodes, "relations", relations, "calls", calls));
  }

  /** Reads a SELECT from the standard input where there is no session, for a server that runs it elsewhere. */
  public static void main(String[] arguments) throws Exception {
    String sql = new String(System.in.readAllBytes(), StandardCharsets.UTF_8);
    System.out.println(new ParsedSelect(null, new SparkSqlParser().parsePlan(sql)).summary());
  }

  private void walk(LogicalPlan root) {
    Set<TreeNode<?>> seen = Collections.newSetFromMap(new IdentityHashMap<>());
    Deque<Part> left = new ArrayDeque<>();
    left.push(new Part(root, false));
    for (int visited = 0; !left.isEmpty(); visited++) {
      if (visited > MOST_PARTS) {
        throw new IllegalStateException("the query has more than " + MOST_PARTS + " parts");
      }
      Part part = left.pop();
      boolean isRepeated = part.isRepeated || part.value instanceof LambdaFunction;
      if (part.value instanceof TreeNode<?> node) {
        if (!seen.add(node)) {
          continue; // it is a child, and a part of its parent's tuple
        }
        read(node, part.isRepeated);
        push(node.children(), isRepeated, left);
        push(node.innerChildren(), isRepeated, left);
      }
      if (part.value instanceof Iterable<?> values) {
        push(values, isRepeated, left);
      } else if (part.value instanceof Product product) {
        Iterator<Object> values = product.productIterator();
        while (values.hasNext()) {
          push(values.next(), isRepeated, left);
        }
      }
    }
  }

  private static void push(Iterable<?> values, boolean isRepeated, Deque<Part> left) {
    Iterator<?> each = values.iterator();
    while (each.hasNext()) {
      push(each.next(), isRepeated, left);
    }
  }

  private static void push(Object value, boolean isRepeated, Deque<Part> left) {
    if (value instanceof Product || value instanceof Iterable || value instanceof TreeNode) {
      left.push(new Part(value, isRepeated));
    }
  }

  private void read(TreeNode<?> node, boolean isRepeated) {
    String name = node.getClass().getName();
    nodes.add(name.startsWith(SPARKS) ? name.substring(SPARKS.length()) : name);
    if (node instanceof UnresolvedRelation relation) {
      relations.add(texts(relation.multipartIdentifier()));
      if (!relation.options().isEmpty()) {
        nodes.add("options of a relation");
      }
    } else if (node instanceof UnresolvedWith with && with.allowRecursion()) {
      nodes.add("WITH RECURSIVE");
    } else if (node instanceof UnresolvedFunction call) {
      add(texts(call.nameParts()), call.arguments(), isRepeated);
    } else if (node instanceof UnresolvedTableValuedFunction call) {
      add(texts(call.name()), call.functionArgs(), isRepeated);
    } else if (node instanceof UnresolvedGenerator call) {
      add(List.of(call.name().unquotedString()), call.children(), isRepeated);
    } else if (node instanceof RLike call) {
      add(List.of("rlike"), call.children(), isRepeated);
    }
  }

  private void add(List<String> name, Seq<Expression> given, boolean isRepeated) {
    List<Object> arguments = new ArrayList<>();
    boolean isNamed = false;
    for (Expression argument : CollectionConverters.asJava(given)) {
      arguments.add(literal(argument));
      isNamed |= argument instanceof NamedArgumentExpression;
    }
    calls.add(
        Map.of(
            "name", String.join(".", name),
            "arguments", arguments,
            "is_named", isNamed,
            "is_repeated", isRepeated));
  }

  /** A number or a text; null for everything else. */
  private static Object literal(Expression argument) {
    if (argument instanceof UnaryMinus minus) {
      Object value = literal(minus.child());
      return value instanceof Long number ? (Object) (-number) : value instanceof Double number ? -number : null;
    }
    if (!(argument instanceof Literal literal)) {
      return null;
    }
    Object value = literal.value();
    if (value instanceof UTF8String text) {
      return text.numChars() > MOST_CHARACTERS ? null : text.toString();
    }
    if (value instanceof Integer || value instanceof Long || value instanceof Short || value instanceof Byte) {
      return ((Number) value).longValue();
    }
    if (value instanceof Double || value instanceof Float) {
      return Double.isFinite(((Number) value).doubleValue()) ? (Object) ((Number) value).doubleValue() : null;
    }
    return value instanceof Decimal number ? (Object) number.toDouble() : null;
  }

  private static List<String> texts(Seq<String> parts) {
    return new ArrayList<>(CollectionConverters.asJava(parts));
  }
}
