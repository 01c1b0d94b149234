/* Reconciliation without rounds, and the changes between it and rounds: a second model for spin. See README.md.
 *
 *   between.pml     reports and answers; a member's step to its target; the log; the leader that was replaced
 *   changing.pml    rounds: JoinGroup, the choice of a protocol, the two conversions, departures, take-over
 *   fates.pml       what happens to incarnations: crash, partition, lease, proof of death; the end of fences
 *   promises.pml    what must be true
 *
 * Incarnations are numbered as in rebalance.pml: l has the identity ID(l). The leader is from outside, and is always
 * there: a crash and a replacement are one step, a take-over. The planner is any planner: targets change at any time.
 *
 * Order instead of numbers. A member has one report on its way that may still be answered; one message of each
 * direction and incarnation may be late. Terms are known as the leader's (NEW), that of the leader or protocol before
 * (OLD), and all others. With EPOCHS, the epochs of attempts are numbers, as in the code.
 */

#ifndef WORKERS
#define WORKERS 2           /* identities */
#endif
#ifndef INCARNATIONS
#define INCARNATIONS 2      /* the first INCARNATIONS - WORKERS identities can have a second incarnation */
#endif
#ifndef TASKS
#define TASKS 2
#endif
#ifndef OLDER
#define OLDER 0             /* incarnations, as bits, that know rounds only */
#endif
#ifndef WORKER_FAULTS
#define WORKER_FAULTS 1     /* crashes and partitions */
#endif
#ifndef OPERATOR_FAULTS
#define OPERATOR_FAULTS 1   /* take-overs */
#endif
#ifndef MESSAGE_FAULTS
#define MESSAGE_FAULTS 1    /* messages that are lost, late or repeated */
#endif
#ifndef MOVES
#define MOVES 1             /* changes of the targets, beside those that absence makes */
#endif
#ifndef CHANGES
#define CHANGES 0           /* changes of the policy: whether it asks for reconciliation */
#endif
#ifndef ASKED
#define ASKED 1             /* whether it asks for it when it begins */
#endif

#define ALL       ((1 << TASKS) - 1)
#define BIT(x)    (1 << (x))
#define HAS(s, x) (((s) >> (x)) & 1)
#define ID(l)     ((l) % WORKERS)
#define NOBODY    15
#define SAY(text)          printf(text)
#define SAY_OF(l, text)    printf("w%d.%d ", ID(l), (l) / WORKERS); printf(text)
#define BITS(s)            HAS(s, 2), HAS(s, 1), HAS(s, 0)

/* ------------------------------------------------------------------ incarnations */

/* As in rebalance.pml. CUT is without the broker: reports may still reach the leader. */
mtype = { UNBORN, UP, CUT, LAPSED, DEAD, CORPSE, PROVEN };
mtype state[INCARNATIONS];
byte running[INCARNATIONS]; /* tasks that run here, those included that are stopping */
byte keep[INCARNATIONS];    /* those not told to stop */
byte worker_faults = WORKER_FAULTS, operator_faults = OPERATOR_FAULTS, message_faults = MESSAGE_FAULTS;
byte moves = MOVES, changes = CHANGES;

#define MAY_RUN(l) (state[l] == UP || state[l] == CUT)

/* ------------------------------------------------------------------ rounds */

mtype = { PREPARING, COMPLETING, STABLE };
mtype group = PREPARING;
byte members, parked, syncing;             /* as in rebalance.pml */
byte reported[INCARNATIONS], reported_stopping[INCARNATIONS];  /* the JoinGroup of a protocol of rounds */
byte has_assignment, sent_assigned[INCARNATIONS], sent_revoked[INCARNATIONS];
byte joining;               /* whose JoinGroup no assignment has answered yet */
byte applied;               /* incarnations that have ever applied an assignment */
byte sent_term[INCARNATIONS];  /* what the assignment says of the term: NEW, OLD, or 0: it is one of rounds */
bool offered;               /* the leader's JoinGroup offers reconciliation */
bool chosen;                /* the group's vote in the round that is completed: reconciliation */
bool planned;
bool gapped;                /* a round went by that nobody planned */

/* ------------------------------------------------------------------ the leader, and its log */

typedef Known {
  bool reconciled;          /* the group exists, and rounds assign no tasks                  ReconciledGroup */
  byte here;                /* its members                                                    .members */
  byte assigned[INCARNATIONS];   /* of members and fences: what they may run                  .current.assigned */
  byte pending[INCARNATIONS]     /* ... and must release                                      .pending_revocation */
}
Known memory;                  /* what the leader knows */
Known log;                  /* what its successor will know */
byte target[WORKERS];       /* per identity                                                   .targets */
bool asked = ASKED;         /* the policy asks for reconciliation */
bool known;                 /* the leader knows what the members of the last round may run    Rounds._known */
byte listed;                /* whom the broker counted in the last planned round              Reconciled._here */
byte renewed;               /* whose lease may have been renewed since the leader counts its fence */

#define OCCUPIED(k, l) (k.assigned[l] | k.pending[l])
#define FENCED(l)      (!HAS(memory.here, l) && OCCUPIED(memory, l))
#define DIFFER(l)      (memory.assigned[l] != log.assigned[l] || memory.pending[l] != log.pending[l])
#if INCARNATIONS > 2
#define ANY(what)      (what(0) || what(1) || what(2))
#define UNION(what)    (what(0) | what(1) | what(2))
#else
#define ANY(what)      (what(0) || what(1))
#define UNION(what)    (what(0) | what(1))
#endif
#define UNSAVED        (memory.here != log.here || ANY(DIFFER))
#if INCARNATIONS > WORKERS
#define IDENTITIES(s)  (((s) | ((s) >> WORKERS)) & (BIT(WORKERS) - 1))
#else
#define IDENTITIES(s)  (s)
#endif

/* ------------------------------------------------------------------ between rounds */

#define NEW 2
#define OLD 1
byte term[INCARNATIONS];    /* that the member was told by a round: NEW, OLD, or 0: it reports nothing */
byte waits;                 /* members whose last report may still be answered */
byte report_there;          /* members whose last report is on its way, or held by the leader */
byte report_owned[INCARNATIONS], report_kept[INCARNATIONS];
byte ready;                 /* members whose answer waits for the log */
byte answer_there;          /* members to which the answer to their last report is on its way */
byte answer[INCARNATIONS];
byte answer_rejects;        /* it says: stop everything */
byte replaced[INCARNATIONS];  /* what the leader before would answer: it has not noticed that it was replaced */
byte replaced_there;

/* One message that is late, or arrives once more. */
mtype = { NOTHING, REPORT, ANSWER };
mtype late = NOTHING;
byte late_of, late_tasks, late_kept;
bool late_counts;           /* no report of its number, or of a later one, was considered */
bool late_last;             /* it is the member's last report, or the answer to it */
bool late_rejects;

#ifdef EPOCHS
/* (term, generation) in rounds, (term, epoch of the group) between them: both as 16 * term + number. */
byte the_term = 1, generation = 1, epoch = 1;
byte sent_epoch[INCARNATIONS], answer_epoch[INCARNATIONS], late_epoch;
byte last_epoch[TASKS], last_owner[TASKS];
#define THE_EPOCH      (16 * the_term + epoch)
#define COUNT_EPOCH()  epoch++
#else
#define THE_EPOCH      0
#define COUNT_EPOCH()  skip
#endif

hidden byte i, j, k, n, occupied, current[WORKERS], owned, step_assigned, step_pending;
hidden byte steps, may;

#include "between.pml"
#include "changing.pml"
#include "fates.pml"
#include "promises.pml"

proctype Incarnation(byte l)
{
end:
  do
  :: member_steps(l)
  :: message_steps(l)
  :: join_steps(l)
  :: fate_steps(l)
  od
}

proctype Leader()
{
end:
  do
  :: leader_steps()
  :: round_steps()
  od
}

init
{
  atomic {
    for (i : 0 .. INCARNATIONS - 1) { state[i] = UNBORN }
    for (i : 0 .. TASKS - 1) { target[i % WORKERS] = target[i % WORKERS] | BIT(i) }
    for (i : 0 .. INCARNATIONS - 1) { run Incarnation(i) }
    run Leader();
    i = 0
  }
  timeout -> d_step { check_rest(); skip }
}
