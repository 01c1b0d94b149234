"""Stock Kafka Connect workers: what is known of them outside of the group that they form.

What may live here: a Worker as the settings of its workers (``properties``), what they log and how
(``log4j``), the JVM that they run on (``jvm``). Pure, but for what looks for jars and a Java. Which settings
are the operator's is said where they are refused (``crd.owned``). May import ``crd``, ``wire``, ``model`` and
``artifacts``.
"""
