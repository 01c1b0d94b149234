"""Kafka Connect's public REST API in front of a Worker's group, for both runtimes.

This package holds the one table of routes (``routes``) and the document made from it (``openapi``), the
translation between that API's configurations and Connectors (``translate``), the answers themselves
(``front`` and its parts), their dependencies as small protocols (``parts``), and the implementations that
both hosts share: the group as its leader knows it (``led``), Spark's members (``spark``) and stock ones
(``stock``). Stores of Connectors and access control belong to the hosts. The Connectors are the source of
truth: nothing is written to a group except through them, restarts and offsets excepted. It may import
``leader``, ``runtime``, ``logs``, ``crd``, ``wire`` and ``model``.
"""
