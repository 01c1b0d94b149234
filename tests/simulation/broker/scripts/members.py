"""Static members and their return; members that leave or are removed. The notation is in ``script``."""

STATIC = {
    "a follower that comes back takes its place without a round": """
        op joins as=op
        op syncs
        s joins as=s
        op joins
        op syncs
        s syncs
        s forgets
        s joins says=other # the metadata changes, the round does not
        s syncs            # what it had
        s beats
        op beats
    """,
    "a leader that comes back leads on, and is told not to assign": """
        op joins as=op
        op syncs
        a enters
        op joins
        op syncs
        a syncs
        op forgets
        op joins
        op syncs op=nonsense
        op beats
        a beats
        op joins           # this makes a round
        a joins
        op syncs
    """,
    "a leader that comes back while it should assign makes a round": """
        op joins as=op
        op syncs
        a enters
        op joins
        a syncs
        op forgets
        op/2 joins
        a joins
        op/2 syncs
    """,
    "a member that comes back while the leader assigns makes a round": """
        a enters
        a syncs
        s joins as=s
        a joins
        s syncs
        s forgets
        s/2 joins          # the member that waits under the old id is fenced
        a syncs
        a joins
        a syncs
    """,
    "a member that comes back into a round that is prepared takes its place": """
        op joins as=op
        op syncs
        a enters
        b joins            # holds the round open
        op joins
        op forgets
        op/2 joins
        op/3 beats
        b joins
        op/2 syncs
    """,
    "a member that comes back with other protocols makes a round if they change the vote": """
        op joins as=op offers=sessioned,default
        op syncs
        op forgets
        op joins offers=sessioned
        op syncs
        op forgets
        op joins offers=default,sessioned
        op syncs
        op forgets
        op joins offers=compatible
    """,
    "a replaced member is fenced": """
        op joins as=op
        op syncs
        new joins as=op
        op beats
        op syncs
        op joins
        op leaves
        new beats
        x removes new@op
    """,
    "an instance id names one member": """
        op joins as=op
        op syncs
        a enters
        op joins
        op syncs
        a syncs
        x beats as=
        a beats
        b joins as=other id=a
        b joins as=op id=a
        x removes a@op a@other op@other
    """,
    "a static member is removed by its instance id alone": """
        op joins as=op
        op syncs
        a enters
        op joins
        x removes @op @op @nobody
        a syncs
        op joins
        op forgets
        op joins
    """,
    "a member that came back before its SyncGroup is missed under its old id": """
        op joins as=op rebalance=2000
        op syncs
        s joins as=s rebalance=2000
        op joins
        op syncs
        s forgets
        s joins
        s syncs
        time passes        # the broker waits for a SyncGroup of who is no more
        op beats
        s beats
    """,
    "a member that is away is in rounds until its session ends": """
        op joins as=op rebalance=2000
        op syncs
        a enters rebalance=2000
        time passes        # a leads
        a syncs
        time passes        # op has not synced
        a joins
        a syncs
        op beats
    """,
    "a round that nobody joins stays open while static members may come": """
        op joins as=op rebalance=1000
        op syncs
        s joins as=s rebalance=1000 session=3000
        op joins
        op syncs
        s syncs
        x removes op
        time passes
        s joins
    """,
}

LEAVING = {
    "a group of nobody is empty, and counts on": """
        a enters
        a leaves
        a leaves
        b enters
        b syncs
        b leaves
        b joins
        b forgets
        b enters
    """,
    "a leader that leaves is followed by another": """
        a enters
        a syncs
        b enters
        c enters
        d enters
        a joins
        a syncs
        b syncs
        a leaves
        b joins
        c joins
        d joins
    """,
    "many are removed by one request of a stranger": """
        a enters
        a syncs
        b enters
        c enters
        a joins
        x removes b nobody a b
        c beats
        c joins
        c syncs
    """,
    "a member removed while its JoinGroup waits gets an error": """
        a enters
        a syncs
        b enters
        c enters
        x removes b c
        a joins
        a syncs
    """,
    "a member removed while its SyncGroup waits gets no answer": """
        a enters
        a syncs
        b enters
        a joins
        b syncs
        x removes b
        a syncs
        a joins
    """,
    "to remove nobody makes no round": """
        a enters
        a syncs
        x removes
        x removes nobody @nobody
        a beats
    """,
    "the lead is taken by removing all others while the own JoinGroup waits": """
        a enters
        a syncs
        b enters
        a joins
        a syncs
        b syncs
        pending joins
        op joins as=op
        b joins
        x removes a b
        x removes pending
        op syncs
        a beats
        a forgets
        a enters
        op beats
        op joins
        op syncs
        a syncs
    """,
}
