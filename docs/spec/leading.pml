/* Whoever leads; and the operator, a leader from outside.
 *
 * A round has two steps here: plan and save, then send. A crash before the first leaves no trace; one between them
 * leaves a memory on the log whose plan nobody has. What the leader knows between rounds is what is on the log.
 */

/* Between rounds: would a round held now change any assignment? Only then is one asked for (decision 011). */
inline consider()
{
  if
  :: group == STABLE ->
    for (i : 0 .. INCARNATIONS - 1) {
      seen[i] = reported[i] | sent_assigned[i];
      seen_stopping[i] = reported_stopping[i] | sent_revoked[i]
    }
    decide(leader == OPERATOR);
#ifdef BUG_NEVER_ASKS
    asks = false
#else
#ifdef BUG_ALWAYS_ASKS
    asks = true
#else
    asks = (changes != 0)
#endif
#endif
  :: else
  fi
}

/* The memory on the log becomes the plan's. */
inline save()
{
  for (i : 0 .. WORKERS - 1) {
    memory.given[i] = next.given[i];
    memory.incarnation[i] = next.incarnation[i];
    memory.held[i] = next.held[i]
  }
  for (i : 0 .. INCARNATIONS - 1) { memory.unstopped[i] = next.unstopped[i] }
  memory.due = next.due;
  renewed = renewed & memory.gone & next.gone;
  memory.gone = next.gone
}

inline leader_steps()
{
  if
  :: d_step { /* plan and save; a plan that is not saved leaves no trace, so these are one step */
      group == COMPLETING && CAN_LEAD && !planned ->
      for (i : 0 .. INCARNATIONS - 1) { seen[i] = reported[i]; seen_stopping[i] = reported_stopping[i] }
      decide(leader == OPERATOR);
#ifndef BUG_SEND_BEFORE_SAVE
      save();
#endif
      planned = true;
      check_two_rounds();
      learn_who_is_here();
      check_holds();
      for (i : 0 .. INCARNATIONS - 1) {
        if
        :: HAS(members, i) ->
          sent_assigned[i] = assigned[i]; sent_revoked[i] = revoked[i];
          check_revocation(i);
          printf("the plan for w%d.%d: assigns %d%d%d, revokes %d%d%d\n", ID(i), i / WORKERS,
                 BITS(assigned[i]), BITS(revoked[i]))
        :: else
        fi
      }
    }
  :: d_step { /* send: SyncGroup is answered to those who are there */
      group == COMPLETING && CAN_LEAD && planned ->
      planned = false; group = STABLE;
      SAY("the plan is sent\n");
      check_memory();
      for (i : 0 .. INCARNATIONS - 1) {
        if
        :: HAS(members, i) && HAS(syncing, i) && state[i] == UP -> has_assignment = has_assignment | BIT(i)
        :: HAS(members, i) && !(HAS(syncing, i) && state[i] == UP) ->
          must_acknowledge = must_acknowledge | BIT(i)  /* it missed the answer, and will join again */
        :: else
        fi
      }
      syncing = 0;
#ifdef BUG_SEND_BEFORE_SAVE
      save();
#endif
      consider()
    }
  fi
}

/* An evicted incarnation runs on. The broker tells its report while the group is stable; it enters the memory. */
inline evict_for_the_lead(l)
{
#ifdef BUG_ASSIGN_IN_TAKEOVER
  memory.given[ID(l)] = 0; memory.incarnation[ID(l)] = NOBODY; memory.unstopped[l] = 0;
#else
  if
  :: group != STABLE || !reported[l] -> skip
#ifdef BUG_MERGE_INCARNATIONS
  :: else -> memory.given[ID(l)] = memory.given[ID(l)] | reported[l]; memory.incarnation[ID(l)] = l
#else
  :: else ->
    if
    :: memory.incarnation[ID(l)] == NOBODY || memory.incarnation[ID(l)] == l ->
      memory.given[ID(l)] = memory.given[ID(l)] | reported[l]; memory.incarnation[ID(l)] = l
    :: else -> memory.unstopped[l] = memory.unstopped[l] | reported[l]; memory.gone = memory.gone & ~BIT(l)
    fi
#endif
  fi
#endif
}

#define STILL_LEADS (HAS(members, OPERATOR) && leader == OPERATOR && group == STABLE)

inline operator_steps()
{
  if
  :: d_step { /* it rejoins: for a round that it wants, or one that others have made */
      operator == LEADS && !HAS(parked, OPERATOR) && (group == PREPARING || (group == STABLE && asks)) ->
      parked = parked | BIT(OPERATOR);
      prepare();
      SAY("the operator rejoins\n")
    }
  :: d_step { operator_faults && operator == LEADS ->
      operator_faults--; operator = AWAY; SAY("the operator crashes\n") }
  :: d_step { operator == AWAY -> operator = NEVER; SAY("the operator will not be back\n") }
  :: d_step { operator == AWAY -> operator = BACK; SAY("the operator is started again\n") }
  :: d_step { /* back within its session: its static member still leads, and nobody is evicted */
      operator == BACK && STILL_LEADS ->
      operator = LEADS;
      read_memory(true);
      parked = parked | BIT(OPERATOR);
      prepare();
      SAY("the operator still leads, and rejoins\n")
    }
  :: d_step { /* take-over: while its own JoinGroup is parked, one LeaveGroup names all others. In mid-round
                 nothing tells whether it still leads: then, too (takeover.py) */
      operator == BACK && !STILL_LEADS ->
      operator = LEADS;
      read_memory(true);
      for (i : 0 .. INCARNATIONS - 1) {
        if
        :: HAS(members, i) -> evict_for_the_lead(i); remove(i)
        :: else
        fi
      }
      prepare();
      members = BIT(OPERATOR); parked = members; leader = OPERATOR;
      SAY("the operator evicts all others: it leads\n")
    }
  fi
}
