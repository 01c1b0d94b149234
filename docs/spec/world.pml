/* What happens to incarnations, and what time does.
 *
 * Clocks are guards. A lease ends only without contact; lease and margin of an absence end only when the lease has
 * (rebalance time-out + heartbeat < lease, and the margin covers the watchdog); a deadline may pass at once.
 */

/* Nothing of it runs any more. */
inline die(l)
{
  running[l] = 0; keep[l] = 0;
  syncing = syncing & ~BIT(l);
  has_assignment = has_assignment & ~BIT(l);
  must_acknowledge = must_acknowledge & ~BIT(l);
  if
  :: !HAS(members, l) -> forget_assignment(l)
  :: else
  fi
}

#define PREVIOUS_INCARNATION(l) ((l) < WORKERS -> (l) : (l) - WORKERS)
#define MAY_BEGIN(l)     ((l) < WORKERS || !(state[PREVIOUS_INCARNATION(l)] == UNBORN || state[PREVIOUS_INCARNATION(l)] == UP))

inline fate_steps(l)
{
  if
  :: d_step { state[l] == UNBORN && MAY_BEGIN(l) -> state[l] = UP; SAY_OF(l, "begins\n") }
  :: d_step { state[l] == UNBORN && l >= WORKERS && MAY_BEGIN(l) ->
      state[l] = DEAD; SAY_OF(l, "never comes\n") }
  :: d_step { worker_faults && MAY_RUN(l) ->
      worker_faults--; die(l); state[l] = DEAD; SAY_OF(l, "dies, and nobody can prove it\n") }
  :: d_step { worker_faults && MAY_RUN(l) ->
      worker_faults--; die(l); state[l] = CORPSE; SAY_OF(l, "dies\n") }
  :: d_step { worker_faults && state[l] == UP ->
      worker_faults--; syncing = syncing & ~BIT(l); state[l] = CUT; SAY_OF(l, "is cut off, and runs on\n") }
  :: d_step { /* lease: without contact it stops everything in time */
      state[l] == CUT ->
      die(l); must_acknowledge = must_acknowledge | BIT(l); state[l] = LAPSED;
      SAY_OF(l, "lets everything go: its lease has ended\n") }
  :: d_step { state[l] == CUT || state[l] == LAPSED ->
      state[l] = UP; parked = parked & ~BIT(l); SAY_OF(l, "reaches the broker again\n") }
  :: d_step { state[l] == LAPSED -> die(l); state[l] = DEAD; SAY_OF(l, "dies, and nobody can prove it\n") }
  :: d_step { state[l] == LAPSED -> die(l); state[l] = CORPSE; SAY_OF(l, "dies\n") }
  :: d_step { state[l] == CORPSE -> state[l] = PROVEN; consider(); SAY_OF(l, "is proven to have ended\n") }
  :: d_step { /* the operator evicts a member whose end is proven: by the member id of that incarnation */
      operator == LEADS && leader == OPERATOR && group == STABLE && HAS(members, l) && ENDED(l) ->
      remove(l); prepare();
      SAY_OF(l, "is evicted by the operator: its end is proven\n")
    }
  :: d_step { /* lease and margin have passed since l was found missing. Timing makes that later than the end
                 of a lease that was last renewed before; of one that was renewed since, nothing is known. */
      HAS(memory.gone, l) && group != COMPLETING && (!MAY_RUN(l) || HAS(renewed, l)) ->
      memory.unstopped[l] = 0;
      memory.gone = memory.gone & ~BIT(l);
      renewed = renewed & ~BIT(l);
      sure = sure | BIT(l);
      consider();
      SAY_OF(l, "has been missing for lease and margin\n")
    }
  fi
}

/* scheduled.rebalance.max.delay.ms after the departure of this identity: at any time from then on. */
inline deadline_steps(l)
{
  if
  :: d_step { l < WORKERS && memory.held[ID(l)] && !HAS(memory.due, ID(l)) && group != COMPLETING ->
      memory.due = memory.due | BIT(ID(l)); release(ID(l)); consider();
      printf("the hold for w%d ends\n", ID(l)) }
  fi
}
