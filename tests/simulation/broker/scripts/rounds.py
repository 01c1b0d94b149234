"""Triggers of a round, awaited members, and protocol selection. The notation is in ``script``."""

ROUNDS = {
    "a newcomer makes a round": """
        a enters
        a syncs
        b enters
        a beats
        a syncs            # too late, the next round is being prepared
        a joins
        b syncs            # waits for the leader
        b/2 beats
        a syncs
        b/2 beats
    """,
    "a leader makes a round whenever it joins": """
        a enters
        a joins            # in time: the round is its own still
        a syncs
        a joins
        a syncs
    """,
    "a follower makes a round only if it has changed": """
        a enters
        a syncs
        b enters
        a joins
        a syncs
        b syncs
        b joins            # the round as it is
        b syncs
        b joins says=other
        a joins
        a syncs
        b syncs
    """,
    "the order of protocols is part of what a member says": """
        a enters offers=sessioned,default
        a syncs
        b enters offers=sessioned,default
        a joins
        a syncs
        b syncs
        b joins offers=default,sessioned
        a beats
    """,
    "a member that joins while the leader assigns gets the round as it is, unless it has changed": """
        a enters
        a syncs
        b enters
        a joins
        a joins            # the leader's answer got lost
        b joins
        b syncs            # waits ...
        a joins says=new   # ... in vain
        b joins
        a syncs gen=2      # of the round before
        a syncs
        b/2 joins
    """,
    "a member that changes in a round that is prepared is taken as it is at the end": """
        a enters
        a syncs
        b enters
        c enters
        c/2 joins says=changed
        a joins
        a syncs
    """,
    "the first of two JoinGroups of a member is never answered": """
        a enters
        a syncs
        b enters
        b/2 joins
        a joins
        a syncs
    """,
    "the first of two SyncGroups of a member is never answered": """
        a enters
        a syncs
        b enters
        a joins
        b syncs
        b/2 syncs
        a syncs
    """,
    "a lost connection leaves its JoinGroup in the round": """
        a enters
        a syncs
        b enters
        b hangs up
        a joins
        a syncs
        b forgets
        b enters
        a beats
    """,
    "members without an assignment get nothing, and assignments for others are ignored": """
        a enters
        a syncs
        b enters
        a joins
        b syncs b=mine     # says who does not lead
        a syncs a=x b=y nobody=z
        a joins
        b joins
        a syncs a=x
        b syncs            # nor what it had before
    """,
    "nobody is known in a group that does not exist": """
        a joins id=a-0
        a beats
        a syncs
        a leaves
        x removes a @a
    """,
    "nobody is known under a wrong id, and generations have to be right": """
        a joins
        a beats gen=0
        a syncs gen=0
        a joins
        x joins id=nobody
        x beats id=nobody
        x syncs id=nobody
        x beats id=a gen=0
        x beats id=a gen=2
        x syncs id=a gen=-1
        x syncs id=a gen=2
        a syncs
        x syncs id=a gen=0
        x beats id=a gen=7
    """,
    "sessions must be neither too short nor too long": """
        a joins session=999
        a joins session=1000
        b joins session=1800001
        b joins session=1800000
    """,
}

PENDING = {
    "an id that was given out holds a round open until it is used": """
        a enters
        a syncs
        b joins
        a beats            # that alone makes no round
        c enters
        a joins            # waits for b, which is no member yet
        c/2 beats
        b joins
        a syncs
        b syncs
        c syncs
    """,
    "an id that was given out can be taken back, which completes the round": """
        a enters
        a syncs
        pending joins
        b enters
        a joins
        x removes pending
        a syncs
        pending joins       # it is nobody now
    """,
    "an id that was given out is for a dynamic member": """
        a joins
        a joins as=op
        a joins as=
    """,
    "an id that was given out is forgotten with its session": """
        a enters
        a syncs
        b joins session=2000
        a joins
        time passes
        b joins
    """,
    "an id outlives a round that ends by time": """
        a enters rebalance=2000
        a syncs
        b joins
        a joins            # held open by b
        time passes
        b joins            # comes late
        a syncs
        a joins
    """,
}

PROTOCOLS = {
    "a protocol that all offer is voted for": """
        a enters offers=sessioned,compatible
        a syncs
        b enters offers=compatible,sessioned
        c enters offers=compatible,sessioned,default
        a joins
        a syncs
    """,
    "a protocol with less votes is no protocol": """
        a enters offers=sessioned,compatible,default
        a syncs
        b enters offers=compatible,sessioned
        a joins
        b syncs
    """,
    "a member that shares no protocol is refused": """
        a enters offers=sessioned,compatible
        a syncs
        b joins offers=default
        b joins offers=compatible,default
        b joins
        a joins offers=sessioned,default
        a joins offers=default
        a joins offers=compatible,sessioned
    """,
    "no protocol at all is refused, also by an empty group": """
        a joins offers=
        a joins offers=default
        a joins offers=
        a joins offers=default
    """,
}
