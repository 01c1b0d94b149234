/* Between rounds: reports, steps, the log, answers. reconciliation/{reports,current,reporting}.py,
   leader/{reconciled,held_reports}.py, agent/reports.py. */

inline forget_report(l)
{
  report_there = report_there & ~BIT(l); report_owned[l] = 0; report_kept[l] = 0
}

inline forget_answer(l)
{
  answer_there = answer_there & ~BIT(l); answer_rejects = answer_rejects & ~BIT(l); answer[l] = 0
#ifdef EPOCHS
  ; answer_epoch[l] = 0
#endif
}

inline forget_late()
{
  late = NOTHING; late_of = 0; late_tasks = 0; late_kept = 0;
  late_counts = false; late_last = false; late_rejects = false
#ifdef EPOCHS
  ; late_epoch = 0
#endif
}

inline make_late(what, l, tasks, kept)
{
  late = what; late_of = l; late_tasks = tasks; late_kept = kept;
  late_counts = (what == REPORT); late_last = true; late_rejects = (what == ANSWER && HAS(answer_rejects, l))
#ifdef EPOCHS
  ; late_epoch = (what == ANSWER -> answer_epoch[l] : 0)
#endif
}

/* The member gives up the report before: an answer to that is not applied any more. */
inline report(l)
{
  late_last = late_last && late_of != l;
  ready = ready & ~BIT(l);            /* dropped once the newer report arrives */
  forget_answer(l);
  forget_report(l);
  waits = waits | BIT(l);
  if
  :: term[l] == NEW ->
    report_there = report_there | BIT(l); report_owned[l] = running[l]; report_kept[l] = keep[l]
  :: else                   /* another leader refuses it; the one before may answer it */
  fi
}

/* From now on `tasks` may run here, and nothing else. */
inline run_only(l, tasks, e)
{
  for (i : 0 .. TASKS - 1) {
    if
    :: HAS(tasks & ~running[l], i) -> check_start(l, i); check_epoch(l, i, e)
    :: else
    fi
  }
  running[l] = running[l] | tasks;
  keep[l] = tasks
}

/* An answer arrives. `last`: it answers the last report. */
inline apply(l, tasks, e, last)
{
  may = last && HAS(waits, l);
#ifdef BUG_OLDER_ANSWER
  may = true;
#endif
#ifndef BUG_OBEYS_AFTER_JOIN
  may = may && !HAS(joining, l);
#endif
  waits = (last && !HAS(joining, l) -> waits & ~BIT(l) : waits);
  if
  :: may ->
    printf("w%d.%d applies an answer: it may run %d%d%d\n", ID(l), (l) / WORKERS, BITS(tasks));
    run_only(l, tasks, e)
  :: else -> SAY_OF(l, "ignores an answer\n")
  fi
}

#ifdef BUG_ANSWER_OF_REPLACED_LEADER
#define FOR_REPLACED(l) true
#else
#define FOR_REPLACED(l) (term[l] == OLD)
#endif
#define MAY_REPORT(l)  (term[l] && MAY_RUN(l) && !HAS(joining, l) && !HAS(has_assignment, l))
#define IS_LOST(l)     (!HAS(report_there | ready | answer_there, l) && !(late != NOTHING && late_of == l && late_last))

inline member_steps(l)
{
  if
  :: d_step { /* a report: after an answer, after a round, when it is not answered in time, when a task was released */
      MAY_REPORT(l) && (!HAS(waits, l) || (IS_LOST(l) && (term[l] == NEW)) ||
                        (HAS(report_there, l) && (report_owned[l] & ~running[l]))) &&
      (term[l] == NEW || !HAS(waits, l)) ->
      report(l);
      printf("w%d.%d reports: it runs %d%d%d, of it stopping %d%d%d\n", ID(l), (l) / WORKERS,
             BITS(running[l]), BITS(running[l] & ~keep[l]))
    }
  :: d_step { /* a task that is not kept has stopped */
      MAY_RUN(l) && (running[l] & ~keep[l]) ->
      for (i : 0 .. TASKS - 1) {
        if
        :: HAS(running[l] & ~keep[l], i) -> running[l] = running[l] & ~BIT(i); break
        :: else
        fi
      }
      printf("w%d.%d has stopped one: it still runs %d%d%d\n", ID(l), (l) / WORKERS, BITS(running[l]))
    }
  :: d_step { /* the answer arrives */
      HAS(answer_there, l) && (MAY_RUN(l) || state[l] == LAPSED) ->
      owned = answer[l];
#ifdef EPOCHS
      k = answer_epoch[l];
#else
      k = 0;
#endif
      forget_answer(l);
      apply(l, owned, k, true)
    }
  :: d_step { /* the leader before has not noticed that it was replaced; what changes nothing needs no log */
      HAS(replaced_there & waits, l) && FOR_REPLACED(l) && !HAS(answer_there, l) && !HAS(joining, l) ->
      answer_there = answer_there | BIT(l);
      answer[l] = replaced[l];
#ifdef EPOCHS
      answer_epoch[l] = 16 * (the_term - 1);
#endif
      SAY("the leader before answers "); SAY_OF(l, "\n")
    }
  fi
}

/* ------------------------------------------------------------------ the leader */

/* The member's step towards its target, as next_assignment: what it may run, and what it must release. */
#define OF(l)            target[ID(l)]
#define OF_OTHERS(l)     ((l == 0 -> 0 : OCCUPIED(memory, 0)) | (l == 1 -> 0 : OCCUPIED(memory, 1)) | OF_THIRD(l))
#if INCARNATIONS > 2
#define OF_THIRD(l)      (l == 2 -> 0 : OCCUPIED(memory, 2))
#else
#define OF_THIRD(l)      0
#endif
#ifdef BUG_RELEASE_WITHOUT_REPORT
#define SAID(owned)      0
#else
#define SAID(owned)      (owned)
#endif
#define REVOKED(l, owned)      (memory.assigned[l] & ~OF(l) & SAID(owned))
#define IS_STUCK(l, owned)     (memory.pending[l] & SAID(owned))
#define NEXT_PENDING(l, owned) (IS_STUCK(l, owned) -> memory.pending[l] : (REVOKED(l, owned) -> memory.assigned[l] & ~OF(l) : 0))
#define NEXT_ASSIGNED(l, owned) (IS_STUCK(l, owned) -> memory.assigned[l] : \
  ((memory.assigned[l] & OF(l)) | (REVOKED(l, owned) -> 0 : OF(l) & ~OF_OTHERS(l))))

/* Whether there is news: the member would step, or does not do what the answer says. One that is no member is told
   to stop everything if another incarnation is there. */
#define HAS_NEWS(l)      (HAS(memory.here, l) -> \
  (NEXT_ASSIGNED(l, report_owned[l]) != report_kept[l] || NEXT_PENDING(l, report_owned[l]) != memory.pending[l] || \
   NEXT_ASSIGNED(l, report_owned[l]) != memory.assigned[l] || (report_owned[l] & ~OCCUPIED(memory, l))) : \
  (HAS(IDENTITIES(memory.here), ID(l)) && (report_owned[l] || FENCED(l))))
#ifdef BUG_TELLS_NOBODY
#define IS_TOLD(l)       !(NEXT_ASSIGNED(l, report_owned[l]) & ~memory.assigned[l])
#else
#define IS_TOLD(l)       true
#endif

/* The answer to the last report of l, once the log has all that it gives. */
inline send_answer(l)
{
  ready = ready & ~BIT(l);
  answer_there = answer_there | BIT(l); answer[l] = memory.assigned[l]
}

inline reject(l)
{
  answer_there = answer_there | BIT(l); answer_rejects = answer_rejects | BIT(l); answer[l] = 0
#ifdef EPOCHS
  ; answer_epoch[l] = THE_EPOCH
#endif
}

inline save()
{
  log.reconciled = memory.reconciled; log.here = memory.here;
  for (i : 0 .. INCARNATIONS - 1) {
    log.assigned[i] = memory.assigned[i]; log.pending[i] = memory.pending[i]
  }
}

/* handle_report, and `_of_stranger`: the report of an incarnation that is no member. */
inline consider(l, said, last)
{
  late_counts = late_counts && late_of != l;
  if
  :: HAS(memory.here, l) && !(said & ~OCCUPIED(memory, l)) ->
    step_assigned = NEXT_ASSIGNED(l, said); step_pending = NEXT_PENDING(l, said);
    memory.assigned[l] = step_assigned; memory.pending[l] = step_pending;
    check_occupants();
    ready = (last -> ready | BIT(l) : ready)
#ifdef EPOCHS
    ; answer_epoch[l] = (last -> THE_EPOCH : answer_epoch[l])
#endif
  :: HAS(memory.here, l) && (said & ~OCCUPIED(memory, l)) ->
    if
    :: last -> reject(l)
    :: else
    fi
  :: else ->
#ifndef BUG_EARLIER_INCARNATION_RUNS
    if
    :: last -> reject(l)
    :: else
    fi;
#endif
    if
    :: FENCED(l) && !said -> memory.assigned[l] = 0; memory.pending[l] = 0
    :: else
    fi
  fi;
#ifdef BUG_ANSWER_BEFORE_SAVE
  if
  :: HAS(ready, l) -> send_answer(l)
  :: else
  fi
#else
  if
  :: HAS(ready, l) && !UNSAVED -> send_answer(l)
  :: else
  fi
#endif
}

#ifdef BUG_OLDER_REPORT
#define LATE_COUNTS    true
#else
#define LATE_COUNTS    late_counts
#endif

inline message_steps(l)
{
  if
  :: d_step { /* the leader holds a report until there is news for its member */
      HAS(report_there, l) && memory.reconciled && group != COMPLETING && HAS_NEWS(l) && IS_TOLD(l) ->
      n = report_owned[l];
      forget_report(l);
      consider(l, n, true);
      SAY("the leader considers the report of "); SAY_OF(l, "\n")
    }
  :: d_step { /* lost */
      message_faults && HAS(report_there | answer_there, l) ->
      message_faults--;
      forget_report(l); forget_answer(l);
      SAY("the message is lost: "); SAY_OF(l, "\n")
    }
  :: d_step { /* repeated, or late: it arrives at any time; the member does not wait for ever */
      message_faults && late == NOTHING && HAS(report_there, l) ->
      message_faults--;
      make_late(REPORT, l, report_owned[l], report_kept[l]);
      SAY("the report will arrive once more: "); SAY_OF(l, "\n")
    }
  :: d_step {
      message_faults && late == NOTHING && HAS(report_there, l) ->
      message_faults--;
      make_late(REPORT, l, report_owned[l], report_kept[l]);
      forget_report(l);
      if
      :: MAY_REPORT(l) && term[l] == NEW -> report(l)
      :: else
      fi;
      SAY("the report is late, and given up: "); SAY_OF(l, "\n")
    }
  :: d_step {
      message_faults && late == NOTHING && HAS(answer_there, l) ->
      message_faults--;
      make_late(ANSWER, l, answer[l], 0);
      forget_answer(l);
      if
      :: MAY_REPORT(l) && term[l] == NEW -> report(l)
      :: else
      fi;
      SAY("the answer is late, and the report is given up: "); SAY_OF(l, "\n")
    }
  :: d_step { /* it arrives at last */
      late == ANSWER && late_of == l && (MAY_RUN(l) || state[l] == LAPSED) ->
      owned = late_tasks; may = late_last; steps = late_last;
#ifdef EPOCHS
      k = late_epoch;
#else
      k = 0;
#endif
      forget_late();
      apply(l, owned, k, steps)
    }
  :: d_step {
      late == REPORT && late_of == l && memory.reconciled && group != COMPLETING ->
      n = late_tasks; steps = late_last;
      if
      :: LATE_COUNTS && HAS(memory.here, l) ->
        SAY("the leader considers a late report of "); SAY_OF(l, "\n");
        if
        :: steps -> forget_report(l)        /* it has the same number */
        :: else
        fi;
        consider(l, n, steps)
      :: else -> SAY("the leader ignores a late report of "); SAY_OF(l, "\n")
      fi;
      forget_late()
    }
  fi
}

inline leader_steps()
{
  if
  :: d_step { /* the log has it: the answers that have waited for that are sent */
      (UNSAVED || ready) && group != COMPLETING ->
      save();
      for (i : 0 .. INCARNATIONS - 1) {
        if
        :: HAS(ready, i) -> send_answer(i)
        :: else
        fi
      }
      check_log();
      SAY("the log is written\n")
    }
  :: d_step { /* the planner wants task 0 or 1 elsewhere */
      moves -> moves--; move(0); SAY("task 0 is to move\n") }
#if TASKS > 1
  :: d_step { moves -> moves--; move(1); SAY("task 1 is to move\n") }
#endif
  :: d_step { /* nobody is there for a target: its hold ends */
      group != COMPLETING && memory.here && (target[0] && !HAS(IDENTITIES(memory.here), 0)) ->
      target[1] = ALL; target[0] = 0; COUNT_EPOCH(); SAY("the hold for w0 ends\n") }
  :: d_step {
      group != COMPLETING && memory.here && (target[1] && !HAS(IDENTITIES(memory.here), 1)) ->
      target[0] = ALL; target[1] = 0; COUNT_EPOCH(); SAY("the hold for w1 ends\n") }
  :: d_step { changes -> changes--; asked = !asked; SAY("the policy changes\n") }
  fi
}

inline move(t)
{
  for (i : 0 .. 1) { target[i] = target[i] ^ BIT(t) }
  COUNT_EPOCH()
}
