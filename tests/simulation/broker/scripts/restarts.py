"""A crash of the broker in the middle, or, for other settings, before. The notation is in ``script``."""

RESTART = "broker restarts"

ACROSS_A_RESTART = {
    "a stable group goes on": """
        a enters
        a syncs
        s joins as=s
        a joins
        a syncs
        s syncs
        broker restarts
        a beats
        s beats
        s syncs
        s forgets
        s joins offers=sessioned
        s syncs
        a joins
    """,
    "protocols are forgotten but for the one in use": """
        a enters
        a syncs
        b enters
        a joins
        a syncs
        b syncs
        broker restarts
        c joins offers=compatible
        b joins            # as before, which is a change now
        a beats
    """,
    "a round that was not assigned has never been": """
        a enters
        a syncs
        b enters
        a joins
        b syncs
        broker restarts
        a beats
        b beats
        b joins
        a beats gen=1
        a joins
    """,
    "who waited in a round is not known": """
        a enters
        a syncs
        b enters
        broker restarts
        b joins
        a joins
    """,
    "ids that were given out are forgotten, and block no round": """
        a enters
        a syncs
        b joins
        c joins
        a joins
        broker restarts
        a joins
        b joins
    """,
    "an assignment that was too large has never been": """
        a enters
        a syncs
        a joins
        a syncs a=x*30000
        broker restarts
        a beats
        a syncs gen=1
    """,
    "an empty group counts on": """
        a enters
        a syncs
        a leaves
        broker restarts
        b enters
    """,
    "a member that left the last round is back": """
        a enters
        a syncs
        b enters
        a joins
        a syncs
        b syncs
        b leaves
        broker restarts
        b beats
        a beats
    """,
    "sessions begin anew": """
        a enters session=8000
        a syncs
        broker restarts
        time passes
        a beats
    """,
}

IN_AN_EMPTY_GROUP = {
    "the first round waits for others": """
        broker restarts
        s joins as=s
        time passes
    """,
    "every newcomer extends the first round": """
        broker restarts
        s joins as=s
        t joins as=t
        time passes
    """,
    "the first round waits no longer than its rebalance time-out": """
        broker restarts
        s joins as=s rebalance=1000
        t joins as=t
        time passes
    """,
    "the first round is not over because somebody leaves": """
        broker restarts
        s joins as=s
        t joins as=t
        x removes s
        time passes
    """,
    "the first round is over when an id that was given out is forgotten": """
        broker restarts
        s joins as=s
        a joins session=1000
        time passes
    """,
    "a group without members is forgotten after a while": """
        a enters
        a syncs
        a leaves
        broker restarts
        time passes
        a joins
        s joins as=s
        time passes        # its first generation
    """,
}
