"""The logs' transport on Kafka: clients that many groups share, one topic reader and writer per log.

Only ``logs`` and ``connectors`` import confluent-kafka.
"""
