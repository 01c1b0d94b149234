/* The classic group protocol: the broker's side, and a worker's.
 *
 *     EMPTY -> PREPARING -> COMPLETING -> STABLE     (PreparingRebalance, CompletingRebalance of Kafka)
 *
 * Any join, leave or end of a session leads to PREPARING. A round completes when all members have joined; it is
 * over when its leader has sent the assignments. Workers learn of a round in preparation by their heartbeats.
 */

/* A round in preparation; one that was being completed is void, its plan with it. Its JoinGroups were answered,
   which renewed leases, and no memory was saved that knows of it: absences are counted anew (machine.py). */
inline prepare()
{
#ifndef BUG_STALE_ABSENCE
  if
  :: group == COMPLETING && !planned -> memory.gone = 0; renewed = 0
  :: else
  fi;
#endif
  group = PREPARING; planned = false; syncing = 0; asks = false
}

/* What the broker and the wire know of l. */
inline forget_assignment(l)
{
  has_assignment = has_assignment & ~BIT(l);
  sent_assigned[l] = 0; sent_revoked[l] = 0; reported[l] = 0; reported_stopping[l] = 0
}

/* Its member id is gone: by the end of its session, or by a LeaveGroup. The incarnation itself runs on. */
inline remove(l)
{
  members = members & ~BIT(l);
  parked = parked & ~BIT(l);
  if
  :: !HAS(has_assignment, l) -> forget_assignment(l)
  :: else
  fi;
  if
  :: leader == l -> leader = NOBODY
  :: else
  fi
}

/* All have joined: the round has a leader. Their JoinGroups are answered, which renews leases. */
inline complete()
{
  syncing = 0;
  for (i : 0 .. INCARNATIONS - 1) {
    if
    :: HAS(members, i) && state[i] == UP ->
      syncing = syncing | BIT(i);
      renewed = renewed | (memory.gone & BIT(i))
    :: else
    fi
  }
  group = COMPLETING; parked = 0
}

/* Whoever takes the lead goes on with the memory on the log. */
inline read_memory(by_operator)
{
#ifdef BUG_FORGET_HOLDS
  for (i : 0 .. WORKERS - 1) { memory.held[i] = 0 }
  for (i : 0 .. INCARNATIONS - 1) { memory.unstopped[i] = 0 }
  memory.due = 0; memory.gone = 0;
#endif
#ifdef BUG_MEMBER_FORGETS
  if
  :: !by_operator ->
    for (i : 0 .. WORKERS - 1) { memory.held[i] = 0; memory.given[i] = 0; memory.incarnation[i] = NOBODY }
    for (i : 0 .. INCARNATIONS - 1) { memory.unstopped[i] = 0 }
    memory.due = 0; memory.gone = 0
  :: else
  fi;
#endif
  skip
}

#define TO_COMPLETE (group == PREPARING && members && parked == members)

inline broker_steps()
{
  if
  :: d_step { TO_COMPLETE && leader != NOBODY -> complete(); SAY("the round completes\n") }
  :: d_step { group == PREPARING && members == 0 -> group = EMPTY; SAY("the group is empty\n") }
  :: d_step { /* the session of an operator that is down ends */
      HAS(members, OPERATOR) && !HAS(parked, OPERATOR) && (operator == AWAY || operator == NEVER) ->
      members = members & ~BIT(OPERATOR);
      if
      :: leader == OPERATOR -> leader = NOBODY
      :: else
      fi;
      prepare();
      SAY("the operator's session ends\n")
    }
  fi
}

inline worker_steps(l)
{
  if
  :: d_step { /* JoinGroup: as a new member, because a round is in preparation, to acknowledge, or to lead one */
      state[l] == UP && !HAS(parked, l) &&
      (!HAS(members, l) || group == PREPARING ||
       (group == STABLE && HAS(must_acknowledge, l) && !HAS(has_assignment, l)) ||
       (group == STABLE && leader == l && asks)) ->
#ifndef BUG_ASSIGNMENT_OUTLIVES_JOIN
      forget_assignment(l);               /* a later join overtakes an assignment that was not taken up */
#endif
      reported[l] = running[l];
      reported_stopping[l] = running[l] & ~keep[l];
      members = members | BIT(l);
      parked = parked | BIT(l);
      prepare();
      printf("w%d.%d joins: runs %d%d%d, of it stopping %d%d%d\n", ID(l), (l) / WORKERS,
             BITS(reported[l]), BITS(reported_stopping[l]))
    }
  :: d_step { /* a round without a leader: any member may be elected */
      TO_COMPLETE && leader == NOBODY && HAS(members, l) -> leader = l; read_memory(false); complete();
      SAY_OF(l, "is elected, and the round completes\n")
    }
  :: d_step { /* take the assignment up: what is in neither list goes on untouched */
      HAS(has_assignment, l) && MAY_RUN(l) ->
      has_assignment = has_assignment & ~BIT(l);
      for (i : 0 .. TASKS - 1) {
        if
        :: HAS(sent_assigned[l], i) -> check_start(l, i); holder[i] = l + 1
        :: else
        fi
      }
      running[l] = running[l] | sent_assigned[l];
      keep[l] = (keep[l] | sent_assigned[l]) & ~sent_revoked[l];
      must_acknowledge = (((reported[l] | sent_revoked[l]) & ~running[l]) ->
                          must_acknowledge | BIT(l) : must_acknowledge & ~BIT(l));
      if
      :: !HAS(members, l) -> forget_assignment(l)
      :: else
      fi;
      printf("w%d.%d takes its assignment up: keeps %d%d%d of %d%d%d\n", ID(l), (l) / WORKERS,
             BITS(keep[l]), BITS(running[l]))
    }
  :: d_step { /* a revoked task has stopped; the next JoinGroup will say so */
      MAY_RUN(l) && (running[l] & ~keep[l]) ->
      for (i : 0 .. TASKS - 1) {
        if
        :: HAS(running[l] & ~keep[l], i) -> running[l] = running[l] & ~BIT(i); holder[i] = 0; break
        :: else
        fi
      }
      must_acknowledge = must_acknowledge | BIT(l);
      printf("w%d.%d has stopped one: still runs %d%d%d\n", ID(l), (l) / WORKERS, BITS(running[l]))
    }
  :: d_step { /* its session ends: it is silent, and no JoinGroup of it is parked */
      HAS(members, l) && !HAS(parked, l) && state[l] != UP -> remove(l); prepare();
      SAY_OF(l, "is dropped: its session has ended\n")
    }
  fi
}
