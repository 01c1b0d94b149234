"""Tasks as loops of Spark batch jobs over offset ranges, whose positions live with the sink."""
