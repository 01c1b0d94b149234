package dev.cooperator.spark;

import org.apache.spark.SparkThrowable;

/**
 * A value that Spark's plan does not convert, or not with certainty as Python does: its batch is converted
 * row by row. The message has no part of the value.
 */
final class Unconverted extends RuntimeException implements SparkThrowable {
  private static final long serialVersionUID = 1L;

  /** Of class 22, "data exception": the error is one of a row's values. */
  private static final String STATE = "22000";

  Unconverted(String message) {
    super(message);
  }

  Unconverted(String message, Throwable cause) {
    super(message, cause);
  }

  @Override
  public String getCondition() {
    return null;
  }

  @Override
  public String getSqlState() {
    return STATE;
  }
}
