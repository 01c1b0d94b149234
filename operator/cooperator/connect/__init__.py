"""Stock Kafka Connect workers, apart from the group that they form.

Contents: a Worker as the settings of its workers (``properties``), their logging (``log4j``), the
JVM that they run on (``jvm``). Pure, except for looking up jars and a Java. ``crd.owned`` defines which
settings belong to the operator, and refuses them. May import ``crd``, ``wire``, ``model`` and ``artifacts``.
"""
