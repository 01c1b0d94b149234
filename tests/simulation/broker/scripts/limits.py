"""Limits: time-outs, and the size of a record. The notation is in ``script``."""

TIME = {
    "a session that ends makes a round": """
        a enters
        a syncs
        b enters session=2000
        a joins
        a syncs
        b syncs
        time passes
        a joins
        b beats
    """,
    "a group is empty when its last session ends": """
        a enters session=2000
        a syncs
        time passes
        a beats
        a joins
    """,
    "a session that ends completes a round": """
        a enters session=2000
        a syncs
        b enters
        time passes
        b syncs
    """,
    "a round waits for the longest rebalance time-out and drops who has not joined": """
        a enters rebalance=3000
        a syncs
        b enters rebalance=1000
        time passes
        a beats
        b syncs
    """,
    "who joins a round and does not sync is dropped after the rebalance time-out": """
        a enters rebalance=2000
        a syncs
        b enters rebalance=2000
        a joins
        a syncs
        time passes
        b syncs
        a joins
    """,
    "a leader that does not assign is dropped, and who waits for it joins again": """
        a enters rebalance=2000
        a syncs
        b enters rebalance=2000
        a joins
        b syncs
        time passes
        b joins
        b syncs
    """,
    "a member whose JoinGroup waits does not end with its session": """
        a enters session=1000 rebalance=3000
        a syncs
        b joins
        a joins            # held open by b, for longer than its session
        time passes
        a syncs
    """,
    "a member whose SyncGroup waits does not end with its session, which then begins anew": """
        a enters
        a syncs
        b enters session=1000
        c enters session=3000
        a joins
        b syncs
        time passes        # c's session ends, b's has ended before
        time passes
        b beats
        c beats
        a beats
    """,
    "a static member that comes back has the session that it had": """
        s joins as=s session=2000
        s syncs
        a enters
        s joins
        s syncs
        a syncs
        s forgets
        s joins session=60000
        time passes
        s beats
        a beats
    """,
}

SIZE = {
    "assignments that are too large end the round": """
        a enters
        a syncs
        b enters
        a joins
        b syncs
        a syncs a=x*30000
        a beats
        a joins
        b joins
        a syncs
        b syncs
    """,
    "metadata that are too large end every round": """
        a enters
        a syncs
        b enters says=y*30000
        a joins
        a syncs
        x removes b
        a joins
        a syncs
    """,
    "a static member that comes back too large is refused": """
        op joins as=op says=x
        op syncs
        new joins as=op says=x*30000
        op beats
        op joins
        op syncs
    """,
}
