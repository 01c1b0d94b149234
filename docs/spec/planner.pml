/* One decision of the leader: decide() = planner/{roster,claims,holds,target,step}.py, on bit sets of tasks.
 *
 *     present     members of the round whose end is not proven             (the operator has proofs)
 *     current     of each identity, its newest present incarnation; older incarnations let go of everything
 *     unreported  = all - U reported(l)                                    nothing else starts anywhere
 *     fenced      = what an incarnation was given or was stopping that is not present and may still run
 *     lost(w)     = (given(w) + held(w)) * unreported
 *                   w absent:  held until the deadline of its own departure, then unclaimed
 *                   w present: owed to w at once (reserved for it while fenced)
 *     unclaimed        = unreported - owed - reserved - held - fenced
 *     assigned    = owed + unclaimed (to whom has the least)
 *     revoked     = what older incarnations run + the surplus over the fair share; the latter only if nobody waits
 *
 * Reads `seen`, `seen_stopping` (the reports), `members`, `memory`. Writes `assigned`, `revoked`, `next`.
 * All other names are scratch: `hidden`, no part of a state.
 */

typedef Memory {                 /*                                                    class Memory */
  byte given[WORKERS];            /* per identity: what it should be running              .given */
  byte incarnation[WORKERS];      /* per identity: the incarnation that was given it      .incarnations */
  byte held[WORKERS];             /* per departed identity: the tasks that wait for it    .holds[].tasks */
  byte due;                       /* identities whose deadline has passed                 .holds[].deadline */
  byte unstopped[INCARNATIONS];   /* per incarnation: what it may still run, but should not  .unstopped[].tasks */
  byte gone                       /* incarnations whose lease is being counted            .gone_since_ms */
}

hidden byte seen[INCARNATIONS], seen_stopping[INCARNATIONS];
hidden byte assigned[INCARNATIONS], revoked[INCARNATIONS];

hidden byte present, current[WORKERS], occupied, unreported, fenced, waiting, unclaimed, all_stays;
hidden byte stays[INCARNATIONS], owed[WORKERS], reserved[WORKERS];
hidden byte i, j, k, n, least, target, receivers, fair, extras, lost;
hidden byte changes;

#define LOAD(w) (COUNT(stays[current[w]]) + COUNT(assigned[current[w]]) + COUNT(reserved[w]))

#ifdef BUG_STOP_THE_WORLD
#define TOO_MANY(n) (n > 0)
#else
#define TOO_MANY(n) (n > fair + (extras -> 1 : 0))
#endif

/* Give each of `tasks` to the current incarnation with the least load. */
inline deal(tasks)
{
  for (j : 0 .. TASKS - 1) {
    least = 255; target = NOBODY;
    for (k : 0 .. WORKERS - 1) {
      if
      :: HAS(tasks, j) && current[k] != NOBODY && LOAD(k) < least -> least = LOAD(k); target = current[k]
      :: else
      fi
    }
    if
    :: target != NOBODY -> assigned[target] = assigned[target] | BIT(j)
    :: else
    fi
  }
}

inline decide(by_operator)
{
  /* roster */
  present = 0; occupied = 0; receivers = 0;
  for (i : 0 .. WORKERS - 1) { current[i] = NOBODY; owed[i] = 0; reserved[i] = 0 }
  for (i : 0 .. INCARNATIONS - 1) {
    stays[i] = 0; assigned[i] = 0; revoked[i] = 0;
    if
    :: HAS(members, i) && !(by_operator && ENDED(i)) ->
      present = present | BIT(i);
      current[ID(i)] = i;               /* later incarnations have higher numbers */
      assert((occupied & seen[i]) == 0);/* nobody ever reports what another one reports */
#ifdef BUG_START_BEFORE_STOP
      occupied = occupied | (seen[i] & ~seen_stopping[i])
#else
      occupied = occupied | seen[i]
#endif
    :: else
    fi
  }
  unreported = ALL & ~occupied;

  /* claims */
  all_stays = 0;
  for (i : 0 .. INCARNATIONS - 1) {
    if
    :: HAS(present, i) && current[ID(i)] == i ->
      stays[i] = seen[i] & ~seen_stopping[i];
      all_stays = all_stays | stays[i]
    :: HAS(present, i) && current[ID(i)] != i -> revoked[i] = seen[i] & ~seen_stopping[i]
    :: else
    fi
  }

  /* fences: an incarnation that is not here may still run what it had */
  fenced = 0; waiting = 0; next.due = 0; next.gone = 0;
  for (i : 0 .. INCARNATIONS - 1) {
    next.unstopped[i] = 0;
    lost = memory.unstopped[i];
    if
    :: memory.incarnation[ID(i)] == i -> lost = lost | memory.given[ID(i)]
    :: else
    fi;
    if
    :: lost && !HAS(present, i) && !(by_operator && ENDED(i)) ->
      next.unstopped[i] = lost;
      next.gone = next.gone | BIT(i);
      fenced = fenced | (lost & unreported)
    :: else
    fi
  }

#ifdef BUG_IGNORE_LEASE
  fenced = 0;
#endif

  /* holds: an identity that is not here may come back */
  for (i : 0 .. WORKERS - 1) {
    next.held[i] = 0; next.given[i] = 0; next.incarnation[i] = NOBODY;
    lost = (memory.given[i] | memory.held[i]) & unreported;
    if
    :: lost && current[i] == NOBODY ->
      if
      :: HAS(memory.due, i) && memory.held[i] ->
        lost = lost & fenced;
        next.due = next.due | (lost -> BIT(i) : 0)
      :: else
      fi;
      next.held[i] = lost;
      waiting = waiting | lost
    :: lost && current[i] != NOBODY -> owed[i] = lost
    :: else
    fi
  }
  waiting = waiting | fenced;
  for (i : 0 .. INCARNATIONS - 1) {
    if  /* what an older incarnation still runs is the newest incarnation's own */
    :: HAS(present, i) && current[ID(i)] != i -> reserved[ID(i)] = reserved[ID(i)] | (seen[i] & ~all_stays)
    :: else
    fi
  }
  unclaimed = unreported & ~waiting;
  for (i : 0 .. WORKERS - 1) {
    reserved[i] = reserved[i] | (owed[i] & waiting);
    owed[i] = owed[i] & ~waiting;
    unclaimed = unclaimed & ~(owed[i] | reserved[i]);
    receivers = receivers + (current[i] != NOBODY -> 1 : 0)
  }

  /* target and step: the surplus over the fair share goes, first what is owed and does not run yet; */
  if
  :: receivers && !waiting ->
    fair = TASKS / receivers; extras = TASKS % receivers;
    for (i : 0 .. WORKERS - 1) {
      n = (current[i] == NOBODY -> 0 : COUNT(stays[current[i]]) + COUNT(owed[i]) + COUNT(reserved[i]));
      for (j : 0 .. 2 * TASKS - 1) {
        k = j % TASKS;
        if
        :: TOO_MANY(n) && j < TASKS && HAS(owed[i], k) ->
          owed[i] = owed[i] & ~BIT(k);
          unclaimed = unclaimed | BIT(k);
          n--
        :: TOO_MANY(n) && j >= TASKS && HAS(stays[current[i]], k) ->
          revoked[current[i]] = revoked[current[i]] | BIT(k);
          stays[current[i]] = stays[current[i]] & ~BIT(k);
          n--
        :: else
        fi
      }
      extras = (n > fair && extras -> extras - 1 : extras)
    }
  :: else
  fi;
  /* what is owed is given back, and who has the least takes what nobody claims */
  for (i : 0 .. WORKERS - 1) {
    if
    :: current[i] != NOBODY -> assigned[current[i]] = owed[i]
    :: else
    fi
  }
  deal(unclaimed);
#ifdef BUG_ASSIGN_AT_ONCE
  lost = 0;
  for (i : 0 .. INCARNATIONS - 1) { lost = lost | revoked[i] }
  deal(lost);
#endif

  /* the memory that goes with it */
  changes = 0;
  for (i : 0 .. WORKERS - 1) {
    if
    :: current[i] != NOBODY ->
      next.given[i] = stays[current[i]] | assigned[current[i]] | reserved[i];
      next.incarnation[i] = (next.given[i] -> current[i] : NOBODY)
    :: else
    fi
  }
  for (i : 0 .. INCARNATIONS - 1) {
    changes = changes | assigned[i] | revoked[i];
    if
    :: HAS(present, i) -> next.unstopped[i] = seen[i] & ~stays[i]
    :: else
    fi
  }
}

