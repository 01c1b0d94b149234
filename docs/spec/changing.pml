/* Rounds, and what they change: who is a member, and the protocol. leader/{rounds,reconciled}.py,
   reconciliation/{conversion,membership}.py.

   The leader's JoinGroup is sent at once when a round is in preparation, and answered when the round completes. */

inline newest()
{
  for (i : 0 .. WORKERS - 1) { current[i] = NOBODY }
  for (i : 0 .. INCARNATIONS - 1) {
    if
    :: HAS(members, i) -> current[ID(i)] = i
    :: else
    fi
  }
}

/* Each task has one occupant, each identity one incarnation, and nobody knows rounds only. */
#if INCARNATIONS > 2
#define CLASH          ((OCCUPIED(memory, 0) & OCCUPIED(memory, 1)) | ((OCCUPIED(memory, 0) | OCCUPIED(memory, 1)) & OCCUPIED(memory, 2)))
#else
#define CLASH          (OCCUPIED(memory, 0) & OCCUPIED(memory, 1))
#endif
#define OBSTACLE(who)  (CLASH || ((who) & ((who) >> WORKERS)) || ((who) & OLDER))

/* A round would change something. */
#define OF_NOW(l)      OCCUPIED(memory, l)
#define NEWEST(l)      (HAS(members, l) && !(l + WORKERS < INCARNATIONS && HAS(members, l + WORKERS)))
#define PLAN_CHANGES(l) (NEWEST(l) && ((memory.assigned[l] & ~target[ID(l)]) || (target[ID(l)] & ~UNION(OF_NOW))))
#define WANTS          (memory.reconciled -> !asked : \
                        (ANY(PLAN_CHANGES) || (asked && known && memory.here && !OBSTACLE(memory.here))))

/* A round in preparation; one that was being completed and has not been planned went by unseen. */
inline prepare()
{
  gapped = gapped || (group == COMPLETING && !planned);
  known = known && !(group == COMPLETING && planned);
  if
  :: group == STABLE ->
    if
    :: memory.reconciled -> offered = asked
    :: else -> offered = (asked && known && !OBSTACLE(memory.here))
    fi
  :: else
  fi;
  group = PREPARING; planned = false; syncing = 0; chosen = false
}

inline forget_assignment(l)
{
  has_assignment = has_assignment & ~BIT(l);
  sent_assigned[l] = 0; sent_revoked[l] = 0; sent_term[l] = 0
#ifdef EPOCHS
  ; sent_epoch[l] = 0
#endif
}

inline remove(l)
{
  members = members & ~BIT(l);
  parked = parked & ~BIT(l);
  syncing = syncing & ~BIT(l);
  if
  :: !HAS(has_assignment, l) -> reported[l] = 0; reported_stopping[l] = 0
  :: else
  fi
}

/* Its process is no member any more, or was told another term. */
inline term_begins()
{
  for (i : 0 .. INCARNATIONS - 1) {
    term[i] = (term[i] -> term[i] - 1 : 0);
    sent_term[i] = (sent_term[i] == NEW -> OLD : sent_term[i]);
    forget_report(i)
  }
  ready = 0; replaced_there = 0;
  for (i : 0 .. INCARNATIONS - 1) { replaced[i] = 0 }
#ifndef BUG_REPORT_OF_EARLIER_TERM
  if
  :: late == REPORT -> forget_late()
  :: else
  fi
#endif
#ifdef EPOCHS
  ; the_term++; epoch = 1
#endif
}

inline join_steps(l)
{
  if
  :: d_step { /* JoinGroup: as a new member, because of a round, or to acknowledge in rounds */
      state[l] == UP && !HAS(parked, l) &&
      (!HAS(members, l) || group == PREPARING ||
       (group == STABLE && HAS(joining, l) && !HAS(has_assignment, l)) ||
       (group == STABLE && !memory.reconciled && !HAS(has_assignment, l) && (reported[l] & ~running[l]))) ->
      forget_assignment(l);
      joining = joining | BIT(l);
      reported[l] = running[l];
      reported_stopping[l] = running[l] & ~keep[l];
      members = members | BIT(l);
      parked = parked | BIT(l);
      prepare();
      printf("w%d.%d joins: it runs %d%d%d, of it stopping %d%d%d\n", ID(l), (l) / WORKERS,
             BITS(running[l]), BITS(running[l] & ~keep[l]))
    }
  :: d_step { /* the assignment arrives */
      HAS(has_assignment, l) && MAY_RUN(l) ->
      has_assignment = has_assignment & ~BIT(l);
      joining = joining & ~BIT(l);
      applied = applied | BIT(l);
      forget_answer(l);
      waits = waits & ~BIT(l);
      late_last = late_last && late_of != l;
      if
      :: sent_term[l] -> term[l] = sent_term[l]; SAY_OF(l, "is told the term\n")
      :: else ->
        term[l] = 0;
        for (i : 0 .. TASKS - 1) {
          if
          :: HAS(sent_assigned[l] & ~running[l], i) -> check_start(l, i);
#ifdef EPOCHS
            check_epoch(l, i, sent_epoch[l])
#endif
          :: else
          fi
        }
        running[l] = running[l] | sent_assigned[l];
        keep[l] = (keep[l] | sent_assigned[l]) & ~sent_revoked[l];
        reported[l] = reported[l] | sent_assigned[l];
        printf("w%d.%d takes its assignment up: keeps %d%d%d of %d%d%d\n", ID(l), (l) / WORKERS,
               BITS(keep[l]), BITS(running[l]))
      fi;
      forget_assignment(l)
    }
  :: d_step { /* its session ends */
      HAS(members, l) && !HAS(parked, l) && state[l] != UP -> remove(l); prepare();
      SAY_OF(l, "is dropped: its session has ended\n")
    }
  fi
}

/* The first round of a group without rounds: its members are those of the round before, with all that they may run,
   or have never applied anything. */
inline begin()
{
  may = known;
  for (i : 0 .. INCARNATIONS - 1) {
    if
    :: HAS(members, i) && !HAS(memory.here, i) -> may = may && !HAS(applied, i)
    :: HAS(members, i) && HAS(memory.here, i)
#ifdef BUG_LEAVES_ROUNDS_WITHOUT_TASKS
      -> memory.assigned[i] = 0; memory.pending[i] = 0
#endif
    :: else
    fi
  }
#ifdef BUG_LEAVES_ROUNDS_BLINDLY
  may = true;
#endif
  steps = may;
  if
  :: steps ->
    for (i : 0 .. INCARNATIONS - 1) {
      if
      :: HAS(members, i) && !HAS(memory.here, i) -> memory.assigned[i] = 0; memory.pending[i] = 0
#ifdef BUG_LEAVES_ROUNDS_WITHOUT_FENCES
      :: !HAS(members, i) -> memory.assigned[i] = 0; memory.pending[i] = 0
#endif
      :: else
      fi
    }
    steps = !OBSTACLE(members)
  :: else
  fi
}

inline change_term()
{
#ifdef BUG_SAME_TERM
#ifdef EPOCHS
  epoch = 1;
#endif
  ready = 0
#else
  term_begins()
#endif
}

/* The members come and go; no task is assigned or revoked. */
inline round()
{
  renewed = (gapped -> 0 : renewed & ~listed);
  listed = members;
  for (i : 0 .. INCARNATIONS - 1) {
    if
    :: HAS(memory.here, i) && current[ID(i)] != i ->     /* depart */
      memory.here = memory.here & ~BIT(i); renewed = renewed & ~BIT(i);
      ready = ready & ~BIT(i);
      forget_report(i);
#ifdef BUG_IGNORE_DEPARTED
      memory.assigned[i] = 0; memory.pending[i] = 0;
#endif
      COUNT_EPOCH()
    :: !HAS(memory.here, i) && current[ID(i)] == i ->    /* join: a fenced one goes on with what it had */
      memory.here = memory.here | BIT(i);
      late_counts = (late == REPORT && (late_counts || (late_of == i && !OCCUPIED(memory, i))));  /* its numbers begin anew */
      COUNT_EPOCH()
    :: else
    fi
  }
}

/* The plan of a round with tasks, from what the members report. */
inline plan()
{
  renewed = (gapped -> 0 : renewed);
  occupied = 0;
  for (i : 0 .. INCARNATIONS - 1) {
    if
    :: HAS(members, i) -> occupied = occupied | reported[i]
    :: else ->
      occupied = occupied | OCCUPIED(memory, i);
      renewed = (HAS(memory.here, i) -> renewed & ~BIT(i) : renewed)
    fi
  }
  for (i : 0 .. INCARNATIONS - 1) {
    if
    :: HAS(members, i) ->
      memory.assigned[i] = (current[ID(i)] == i -> reported[i] & ~reported_stopping[i] & target[ID(i)] : 0);
      memory.pending[i] = reported[i] & ~memory.assigned[i];
      sent_revoked[i] = memory.pending[i] & ~reported_stopping[i];
      sent_assigned[i] = (current[ID(i)] == i -> target[ID(i)] & ~occupied : 0);
      memory.assigned[i] = memory.assigned[i] | sent_assigned[i]
#ifdef EPOCHS
      ; sent_epoch[i] = 16 * the_term + generation
#endif
    :: else
    fi
  }
  memory.here = members; listed = members
}

inline round_steps()
{
  if
  :: d_step { /* all have joined: their JoinGroups are answered, which renews leases; the leader does not know it yet */
      group == PREPARING && members && parked == members ->
      syncing = 0;
      for (i : 0 .. INCARNATIONS - 1) {
        if
        :: HAS(members, i) && state[i] == UP -> syncing = syncing | BIT(i); renewed = renewed | BIT(i)
        :: else
        fi
      }
      chosen = offered && !(members & OLDER);
      group = COMPLETING; parked = 0;
#ifdef EPOCHS
      generation++;
#endif
      SAY("the round completes\n")
    }
  :: d_step { /* plan, and save */
      group == COMPLETING && !planned ->
      newest(); steps = true;
      if
      :: chosen && !memory.reconciled -> begin();
        if
        :: steps -> change_term(); memory.reconciled = true; late_counts = (late == REPORT); SAY("the group leaves rounds\n")
        :: else
        fi
      :: !chosen && memory.reconciled ->
        change_term(); memory.reconciled = false; SAY("the group is in rounds again\n")
#ifdef BUG_RETURNS_TO_ROUNDS_WITHOUT_FENCES
        ; for (i : 0 .. INCARNATIONS - 1) {
          if
          :: !HAS(members, i) -> memory.assigned[i] = 0; memory.pending[i] = 0
          :: else
          fi
        }
#endif
      :: else
      fi;
      if
      :: !steps ->          /* it is not known what the members run: another round, in which they say it */
        offered = false; known = false; gapped = true;
        group = PREPARING; syncing = 0; chosen = false;
        SAY("the members have to report their tasks\n")
      :: else ->
        if
        :: memory.reconciled -> round()
        :: else -> plan()
        fi;
        gapped = false; planned = true;
        check_occupants();
        save();
        for (i : 0 .. INCARNATIONS - 1) {
          sent_term[i] = (HAS(members, i) -> (memory.reconciled -> NEW : 0) : sent_term[i]);
          if
          :: HAS(ready, i) -> send_answer(i)
          :: else
          fi
        }
        SAY("the round is planned, and the log is written\n")
      fi
    }
  :: d_step { /* the assignments are sent: SyncGroup is answered */
      group == COMPLETING && planned ->
      planned = false; group = STABLE; known = true;
      for (i : 0 .. INCARNATIONS - 1) {
        if
        :: HAS(members & syncing, i) && state[i] == UP -> has_assignment = has_assignment | BIT(i)
        :: HAS(members, i) && !(HAS(syncing, i) && state[i] == UP) -> forget_assignment(i)
        :: else
        fi
      }
      syncing = 0;
      check_log();
      SAY("the assignments are sent\n")
    }
  :: d_step { group == STABLE && WANTS -> prepare(); SAY("the leader asks for a round\n") }
  :: d_step { /* another leader goes on with the log; it has removed all members. The one before may not notice. */
      operator_faults ->
      operator_faults--;
      term_begins();
      for (i : 0 .. INCARNATIONS - 1) {
        memory.assigned[i] = log.assigned[i]; memory.pending[i] = log.pending[i];
        if
        :: log.reconciled && HAS(log.here, i) && term[i] == OLD ->
          replaced[i] = log.assigned[i]; replaced_there = replaced_there | BIT(i)
        :: else
        fi
      }
      memory.reconciled = log.reconciled; memory.here = log.here;
      for (i : 0 .. INCARNATIONS - 1) {
        if
        :: HAS(members, i) -> remove(i)
        :: else
        fi
      }
      members = 0; parked = 0; group = PREPARING; planned = false; syncing = 0; chosen = false;
      gapped = true; renewed = 0; listed = 0; known = false;
      offered = log.reconciled && asked;
      SAY("another leader removes all members, and goes on with the log\n")
    }
  fi
}
