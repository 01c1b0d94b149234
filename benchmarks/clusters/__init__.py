"""Clusters to compare: stock Kafka Connect led by itself or by this project, and this project's members.

All run the same light tasks, which write a journal where they run, and all are used through Kafka Connect's
REST API.
"""
