"""Kafka Connect's public REST API in front of a Worker's group, for both runtimes.

What may live here: the one table of what is served (``routes``) and the document that is made of it
(``openapi``), configurations of that API as Connectors and back (``translate``), the answers themselves
(``front`` and what it is put together of), what they ask of the world as small protocols (``parts``), and
those parts that both hosts share: the group as its leader knows it (``led``), Spark's members (``spark``) and
stock ones (``stock``). Stores of Connectors and who may do what belong to the hosts. The Connectors are the
truth: nothing is written to a group but through them, restarts and offsets excepted. May import ``leader``,
``runtime``, ``logs``, ``crd``, ``wire`` and ``model``.
"""
