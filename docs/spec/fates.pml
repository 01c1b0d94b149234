/* What happens to incarnations, as in world.pml; and the end of fences. */

/* Nothing of it runs any more. */
inline die(l)
{
  running[l] = 0; keep[l] = 0;
  syncing = syncing & ~BIT(l);
  forget_assignment(l)
}

/* It will not be back. */
inline vanish(l)
{
  die(l);
  forget_report(l); forget_answer(l);
  term[l] = 0; waits = waits & ~BIT(l); ready = ready & ~BIT(l); joining = joining & ~BIT(l);
  if
  :: late == ANSWER && late_of == l -> forget_late()
  :: else
  fi
}

inline unoccupy(l)
{
  memory.assigned[l] = 0; memory.pending[l] = 0; renewed = renewed & ~BIT(l);
  if
  :: HAS(memory.here, l) -> memory.here = memory.here & ~BIT(l); COUNT_EPOCH()
  :: else
  fi
}

#define PREVIOUS(l)    ((l) < WORKERS -> (l) : (l) - WORKERS)
#define MAY_BEGIN(l)   ((l) < WORKERS || !(state[PREVIOUS(l)] == UNBORN || state[PREVIOUS(l)] == UP))

/* Until the leader has planned a round that was completed, it does not know whose lease that has renewed. */
#ifdef BUG_FENCE_ENDS_WHILE_JOINING
#define KNOWS_MEMBERS  true
#else
#define KNOWS_MEMBERS  (!(group == COMPLETING && !planned) && !gapped)
#endif
#ifdef BUG_EARLIER_INCARNATION_RUNS
#define IS_LISTED(l)   false
#else
#define IS_LISTED(l)   HAS(listed, l)
#endif

inline fate_steps(l)
{
  if
  :: d_step { state[l] == UNBORN && MAY_BEGIN(l) -> state[l] = UP; SAY_OF(l, "begins\n") }
  :: d_step { state[l] == UNBORN && l >= WORKERS && MAY_BEGIN(l) ->
      state[l] = DEAD; SAY_OF(l, "never comes\n") }
  :: d_step { worker_faults && MAY_RUN(l) ->
      worker_faults--; vanish(l); state[l] = CORPSE; SAY_OF(l, "dies\n") }
  :: d_step { worker_faults && state[l] == UP ->
      worker_faults--; syncing = syncing & ~BIT(l); state[l] = CUT;
      SAY_OF(l, "is cut off from the broker, and runs on\n") }
  :: d_step { state[l] == CUT ->
      die(l); state[l] = LAPSED;
#ifndef BUG_OBEYS_AFTER_LEASE
      waits = waits & ~BIT(l);              /* no answer to an earlier report is applied */
#endif
      SAY_OF(l, "lets everything go: its lease has ended\n") }
  :: d_step { state[l] == CUT || state[l] == LAPSED ->
      state[l] = UP; parked = parked & ~BIT(l);
      if
      :: !HAS(members, l) -> term[l] = 0; joining = joining | BIT(l)  /* it learns that it is no member */
      :: else
      fi;
      SAY_OF(l, "reaches the broker again\n") }
  :: d_step { state[l] == LAPSED -> vanish(l); state[l] = DEAD; SAY_OF(l, "dies, and nobody can prove it\n") }
  :: d_step { /* the end is proven, and frees what it had; a member is evicted */
      state[l] == CORPSE && group != COMPLETING ->
      state[l] = PROVEN; unoccupy(l);
      if
      :: HAS(members, l) -> remove(l); prepare()
      :: else
      fi;
      SAY_OF(l, "is proven to have ended\n") }
  :: d_step { /* lease and margin have passed since it was missing. Timing makes that later than the end of a lease that
                 was last renewed before; of one that was renewed since, nothing is known. */
      FENCED(l) && !IS_LISTED(l) && KNOWS_MEMBERS && (!MAY_RUN(l) || HAS(renewed, l)) ->
      unoccupy(l);
      SAY_OF(l, "has been missing for lease and margin\n") }
  fi
}
