"""All that a plug-in imports from here: the interface of connectors, and how their options are declared.

``docs/plugins.md`` leads through it, ``examples/plugin`` is a plug-in to copy. What is named here is kept
from one version to the next, or its change is in the changelog; whatever else a plug-in imports may change.
"""

from cooperator.runtime.connectors.access import KafkaOptions, of_librdkafka, of_spark
from cooperator.runtime.connectors.base import (
    Cancelled,
    Connector,
    Delivered,
    Delivery,
    RunningUnit,
    UnitContext,
    UnitProgress,
)
from cooperator.runtime.connectors.spark import SparkConnector, SparkOptions
from cooperator.runtime.connectors.transform import Select, selected
from cooperator.runtime.fence import Fence, Fenced, claim
from cooperator.runtime.options import (
    FullPath,
    Names,
    OptionError,
    Options,
    Problem,
    TopicName,
    TopicNames,
    option,
    refuse,
)

__all__ = [
    "Cancelled",
    "Connector",
    "Delivered",
    "Delivery",
    "Fence",
    "Fenced",
    "FullPath",
    "KafkaOptions",
    "Names",
    "OptionError",
    "Options",
    "Problem",
    "RunningUnit",
    "Select",
    "SparkConnector",
    "SparkOptions",
    "TopicName",
    "TopicNames",
    "UnitContext",
    "UnitProgress",
    "claim",
    "of_librdkafka",
    "of_spark",
    "option",
    "refuse",
    "selected",
]
