package dev.cooperator.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.analysis.CTESubstitution;
import org.apache.spark.sql.catalyst.analysis.MultiAlias;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction;
import org.apache.spark.sql.catalyst.analysis.UnresolvedGenerator;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableValuedFunction;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.BaseGroupingSets;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ILike;
import org.apache.spark.sql.catalyst.expressions.Like;
import org.apache.spark.sql.catalyst.expressions.LikeAll;
import org.apache.spark.sql.catalyst.expressions.LikeAny;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedArgumentExpression;
import org.apache.spark.sql.catalyst.expressions.NotLikeAll;
import org.apache.spark.sql.catalyst.expressions.NotLikeAny;
import org.apache.spark.sql.catalyst.expressions.RLike;
import org.apache.spark.sql.catalyst.expressions.UnaryMinus;
import org.apache.spark.sql.catalyst.expressions.UnresolvedNamedLambdaVariable;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationDef;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationRef;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedHint;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedWith;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SparkSqlParser;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
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
  private static final String EVALUATES_VALUES = "spark.sql.parser.eagerEvalOfUnresolvedInlineTable";
  private static final int MOST_PARTS = 100_000;
  private static final int MOST_CHARACTERS = 2_000;

  /** A value in the plan; {@code parent} is the number of the nearest node that it is in, or -1. */
  private record Part(Object value, int parent) {}

  /** A node of the tree for Python; a parent has a smaller number than its parts, the last of which is first. */
  public record Node(int parent, String kind, boolean isPlan, List<String> names, Object value) {}

  private final SparkSession session;
  private final LogicalPlan plan;
  private final TreeSet<String> nodes = new TreeSet<>();
  private final List<List<String>> relations = new ArrayList<>();
  private final List<Map<String, Object>> calls = new ArrayList<>();
  private final List<Node> tree = new ArrayList<>();

  private ParsedSelect(SparkSession session, LogicalPlan plan) {
    this.session = session;
    this.plan = plan;
    walk(plan);
    // Afterwards, the names that are left are those that Spark looks up in its catalogs.
    relations.clear();
    calls.clear();
    tree.clear();
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
      return new ParsedSelect(session, plan(session.sessionState().sqlParser(), sql));
    } catch (Exception error) {
      throw (E) error;
    }
  }

  private static LogicalPlan plan(ParserInterface parser, String sql) throws ParseException {
    // Otherwise the parser evaluates what is in VALUES before anything is checked, and hides it.
    SQLConf.get().setConfString(EVALUATES_VALUES, "false");
    return parser.parsePlan(sql);
  }

  /** The rows of the very plan that was read. */
  public Dataset<Row> rows() {
    return Dataset.ofRows(session, plan);
  }

  public String summary() throws JsonProcessingException {
    return new ObjectMapper()
        .writeValueAsString(Map.of("nodes", nodes, "relations", relations, "calls", calls, "tree", tree));
  }

  /** Reads a SELECT from the standard input where there is no session, for a server that runs it elsewhere. */
  public static void main(String[] arguments) throws Exception {
    String sql = new String(System.in.readAllBytes(), StandardCharsets.UTF_8);
    System.out.println(new ParsedSelect(null, plan(new SparkSqlParser(), sql)).summary());
  }

  private void walk(LogicalPlan root) {
    // A parser may put one node into several places: it counts in each, as it does for what Spark does next.
    Map<TreeNode<?>, Set<Integer>> parents = new IdentityHashMap<>();
    Deque<Part> left = new ArrayDeque<>();
    left.push(new Part(root, -1));
    for (int visited = 0; !left.isEmpty(); visited++) {
      if (visited > MOST_PARTS) {
        nodes.add("too many parts");
        return;
      }
      Part part = left.pop();
      int parent = part.parent;
      if (part.value instanceof TreeNode<?> node) {
        if (!parents.computeIfAbsent(node, any -> new HashSet<>()).add(part.parent)) {
          continue; // it is a child, and a part of its parent's tuple
        }
        read(node, part.parent);
        parent = tree.size() - 1;
        push(node.children(), parent, left);
        push(node.innerChildren(), parent, left);
      }
      if (part.value instanceof Iterable<?> values) {
        push(values, parent, left);
      } else if (part.value instanceof Product product) {
        Iterator<Object> values = product.productIterator();
        while (values.hasNext()) {
          push(values.next(), parent, left);
        }
      }
    }
  }

  private static void push(Iterable<?> values, int parent, Deque<Part> left) {
    Iterator<?> each = values.iterator();
    while (each.hasNext()) {
      push(each.next(), parent, left);
    }
  }

  private static void push(Object value, int parent, Deque<Part> left) {
    if (value instanceof Product || value instanceof Iterable || value instanceof TreeNode) {
      left.push(new Part(value, parent));
    }
  }

  private void read(TreeNode<?> node, int parent) {
    String name = node.getClass().getName();
    String kind = name.startsWith(SPARKS) ? name.substring(SPARKS.length()) : name;
    nodes.add(kind);
    if (node instanceof UnresolvedRelation relation) {
      relations.add(texts(relation.multipartIdentifier()));
      if (!relation.options().isEmpty()) {
        nodes.add("options of a relation");
      }
    } else if (node instanceof UnresolvedWith with && with.allowRecursion()) {
      nodes.add("WITH RECURSIVE");
    } else if (node instanceof UnresolvedFunction call) {
      add(call, texts(call.nameParts()), call.arguments());
    } else if (node instanceof UnresolvedTableValuedFunction call) {
      add(call, texts(call.name()), call.functionArgs());
    } else if (node instanceof UnresolvedGenerator call) {
      add(call, List.of(call.name().unquotedString()), call.children());
    } else if (node instanceof RLike call) {
      add(call, List.of("rlike"), call.children());
    } else if (node instanceof Like call) {
      addPatterns(Collections.singletonList(literal(call.right())));
    } else if (node instanceof ILike call) {
      addPatterns(Collections.singletonList(literal(call.right())));
    } else if (node instanceof LikeAll call) {
      addPatterns(CollectionConverters.asJava(call.patterns()));
    } else if (node instanceof NotLikeAll call) {
      addPatterns(CollectionConverters.asJava(call.patterns()));
    } else if (node instanceof LikeAny call) {
      addPatterns(CollectionConverters.asJava(call.patterns()));
    } else if (node instanceof NotLikeAny call) {
      addPatterns(CollectionConverters.asJava(call.patterns()));
    }
    tree.add(new Node(parent, kind, node instanceof LogicalPlan, names(node), value(node)));
  }

  /** The names that a node gives to something, or by which it refers to it; the type of a cast; all other texts. */
  private static List<String> names(TreeNode<?> node) {
    if (node instanceof UnresolvedAttribute attribute) {
      return texts(attribute.nameParts());
    } else if (node instanceof UnresolvedNamedLambdaVariable variable) {
      return texts(variable.nameParts());
    } else if (node instanceof Alias alias) {
      return List.of(alias.name());
    } else if (node instanceof MultiAlias alias) {
      return texts(alias.names());
    } else if (node instanceof Cast cast) {
      return List.of(cast.dataType().sql());
    } else if (node instanceof UnresolvedFunction call) {
      return texts(call.nameParts());
    } else if (node instanceof UnresolvedTableValuedFunction call) {
      return texts(call.name());
    } else if (node instanceof UnresolvedGenerator call) {
      return List.of(call.name().unquotedString());
    } else if (node instanceof CTERelationDef definition) {
      return List.of(Long.toString(definition.id()));
    } else if (node instanceof CTERelationRef reference) {
      return List.of(Long.toString(reference.cteId()));
    }
    List<String> found = new ArrayList<>();
    collect(((Product) node).productIterator(), found);
    return found;
  }

  /** Adds the texts among values, and those that are in them; nodes have their own. */
  private static void collect(Iterator<?> values, List<String> found) {
    while (values.hasNext()) {
      Object value = values.next();
      if (value instanceof String text) {
        found.add(text);
      } else if (value instanceof Iterable<?> several) {
        collect(several.iterator(), found);
      } else if (value instanceof Product product && !(value instanceof TreeNode) && !(value instanceof DataType)) {
        collect(product.productIterator(), found);
      }
    }
  }

  /** A literal (a text or binary of any length), the literals of a hint, or the number of sets that group rows. */
  private static Object value(TreeNode<?> node) {
    if (node instanceof BaseGroupingSets sets) {
      return sets.groupingSets().size();
    } else if (node instanceof UnresolvedHint hint) {
      List<Object> values = new ArrayList<>();
      for (Object each : CollectionConverters.asJava(hint.parameters())) {
        values.add(
            each instanceof Expression expression
                ? literal(expression)
                : each instanceof Number number ? (Object) number.longValue() : null);
      }
      return values;
    }
    if (node instanceof Literal literal) {
      if (literal.value() instanceof UTF8String text) {
        return text.toString();
      }
      if (literal.value() instanceof byte[] bytes) {
        return new String(bytes, StandardCharsets.ISO_8859_1);
      }
      return literal(literal);
    }
    return null;
  }

  private void addPatterns(List<?> patterns) {
    List<Object> arguments = new ArrayList<>();
    arguments.add(null); // what is matched
    for (Object pattern : patterns) {
      arguments.add(pattern instanceof UTF8String text ? text.toString() : pattern);
    }
    calls.add(Map.of("name", "like", "arguments", arguments, "is_named", false, "ends", List.of()));
  }

  private void add(TreeNode<?> call, List<String> name, Seq<Expression> given) {
    List<Object> arguments = new ArrayList<>();
    List<Object> ends = new ArrayList<>();
    boolean isNamed = false;
    for (Expression argument : CollectionConverters.asJava(given)) {
      arguments.add(literal(argument));
      ends.add(end(argument));
      isNamed |= argument instanceof NamedArgumentExpression;
    }
    ends.add(end(call));
    calls.add(
        Map.of(
            "name", String.join(".", name),
            "arguments", arguments,
            "is_named", isNamed,
            "ends", ends));
  }

  /** The place in the text, in code points, of the last character of what the node was read from; or -1. */
  private static Object end(TreeNode<?> node) {
    return node.origin().stopIndex().isDefined() ? node.origin().stopIndex().get() : -1;
  }

  /** A number, a text, or what is in a map of them; null for everything else. */
  private static Object literal(Expression argument) {
    if (argument instanceof UnaryMinus minus) {
      Object value = literal(minus.child());
      return value instanceof Long number ? (Object) (-number) : value instanceof Double number ? -number : null;
    }
    if (argument instanceof UnresolvedFunction call
        && call.nameParts().mkString(".").equalsIgnoreCase("map")) {
      List<Object> values = new ArrayList<>();
      for (Expression each : CollectionConverters.asJava(call.arguments())) {
        values.add(literal(each));
      }
      return values;
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
