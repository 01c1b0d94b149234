"""Contenders of ``benchmarks.throughput``: pipelines that copy records, and what measures them.

A **turn** is one contender, in fresh processes, doing one job: its source topic is produced anew. ``job`` has
the interface, ``plain_spark``, ``mirror``, ``ours`` and ``copying`` implement it, ``turns`` plays it, and
``report`` prints it.
"""
