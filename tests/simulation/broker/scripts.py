"""Conversations that tell how a group behaves, by what they are about. The notation: ``script``."""

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
    "who joins while the leader assigns gets the round as it is, unless it has changed": """
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
    "who is not assigned anything gets nothing, and assignments for others are ignored": """
        a enters
        a syncs
        b enters
        a joins
        b syncs b=mine
        a syncs a=x nobody=y
        x syncs id=b gen=2
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
        brake joins
        b enters
        a joins
        x removes brake
        a syncs
        brake joins        # it is nobody now
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
        s/2 joins          # who waits under the old id is fenced
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
    "who was replaced is fenced": """
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
    "who is removed while its JoinGroup waits is told so": """
        a enters
        a syncs
        b enters
        c enters
        x removes b c
        a joins
        a syncs
    """,
    "who is removed while its SyncGroup waits is told nothing": """
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
        brake joins
        op joins as=op
        b joins
        x removes a b
        x removes brake
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

HELD_AT_ONCE = ROUNDS | PENDING | PROTOCOLS | STATIC | LEAVING | TIME | SIZE

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
