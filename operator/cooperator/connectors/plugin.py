"""The public API for plug-ins: the interface of connectors, and the declaration of their options.

``docs/plugins.md`` is the guide, ``examples/plugin`` a plug-in to copy. The names here stay stable between
versions, or the changelog lists the change; anything else that a plug-in imports may change.
"""

from cooperator.connectors.access import KafkaOptions, of_librdkafka, of_spark
from cooperator.connectors.base import (
    Cancelled,
    Connector,
    Delivered,
    Delivery,
    RunningUnit,
    StateSize,
    UnitContext,
    UnitProgress,
)
from cooperator.connectors.fence import Fence, Fenced, claim
from cooperator.connectors.options import (
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
from cooperator.connectors.spark import SparkConnector, SparkOptions
from cooperator.connectors.transform import Select, selected

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
    "StateSize",
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
