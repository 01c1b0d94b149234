"""A public class of the program has a name of its own: one name for one thing (docs/style.md)."""

import re
from collections import Counter

from tests.docs.project import ROOT, files_of_the_project

CLASS = re.compile(r"^class ([A-Z]\w*)", re.MULTILINE)

MESSAGES = """
    Answer BatchFailed Begin ConfigChanged Create Delete Delivered Done Drain Evict Failed Fence Hold Join
    Leave Look Read RestartRequested Run Seen Sent Stop Tick Withdraw
"""
"""Events and instructions of machines, and changes of scenarios: each is used with its module's name, as
``ev.Tick``, and machines that are told the same thing should say so in the same word."""

LEVELS = """
    Attempt BrokenInvariant Causes Claim Condition Connector Fencing GroupPolicy Kafka Owned Owner Phase
    Report Runtime Spread State StoryLine Subscription Task TopicMisconfigured TopicReader Topics
"""
"""One term at two levels, in rooms that never import each other or convert one into the other: a field of a
resource and its value in the model, a machine's and its shell's, two runtimes'."""


def names_used_again() -> set[str]:
    program = ROOT / "operator"
    paths = [path for path in files_of_the_project() if path.suffix == ".py" and program in path.parents]
    found = Counter(name for path in paths for name in CLASS.findall(path.read_text("utf-8")))
    return {name for name, count in found.items() if count > 1}


def test_no_other_class_shares_its_name() -> None:
    allowed = {*MESSAGES.split(), *LEVELS.split()}
    assert names_used_again() - allowed == set(), "give the new class another name"
    assert allowed - names_used_again() == set(), "take these names from the lists"
