/* Incremental cooperative rebalancing with a leader from outside: a model for spin. See README.md.
 *
 *   group.pml       the broker parks JoinGroups, completes rounds, elects, ends sessions; a worker joins, takes
 *                   assignments up, stops what was revoked, acknowledges by a rejoin
 *   leading.pml     the leader plans, saves the memory to the log, sends the assignments (SyncGroup); the
 *                   operator, a leader from outside that runs no tasks, crashes, returns, takes the lead
 *   planner.pml     one decision
 *   world.pml       what happens to incarnations: crash, partition, lease, proof of death; and deadlines
 *   properties.pml  what must be true
 *
 * Identity and incarnation. Worker w has the identity w (the name of its pod). Its incarnations (processes) are
 * l = w, w + WORKERS, ...: two incarnations of one identity can run at the same time, one of them unknown to the
 * host. A member id is an incarnation here: an evicted one that comes back is the same one under another id.
 *
 * Time is events: a deadline passes whenever it likes; a lease never before it can (world.pml).
 * Every run ends: faults are bounded, and the protocol itself must come to rest (checked: no cycle at all).
 */

#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef INCARNATIONS
#define INCARNATIONS 3      /* the first INCARNATIONS - WORKERS identities can have a second incarnation */
#endif
#ifndef TASKS
#define TASKS   2
#endif
#ifndef RUNNING
#define RUNNING 1           /* workers that run all tasks when it begins; the others join */
#endif
#ifndef WORKER_FAULTS
#define WORKER_FAULTS 1     /* crashes and partitions of workers, all together */
#endif
#ifndef OPERATOR_FAULTS
#define OPERATOR_FAULTS 1   /* crashes of the operator */
#endif

#define ALL       ((1 << TASKS) - 1)
#define BIT(x)    (1 << (x))
#define HAS(s, x) (((s) >> (x)) & 1)
#define COUNT(s)  (((s) & 1) + (((s) >> 1) & 1) + (((s) >> 2) & 1))
#define ID(l)     ((l) % WORKERS)
#define OPERATOR  INCARNATIONS  /* its place among the members */
#define NOBODY    15

/* A trail is told as a story: `spin -t` prints these lines. Incarnations are w<identity>.<n>, sets are bits. */
#define SAY(text)          printf(text)
#define SAY_OF(l, text)    printf("w%d.%d ", ID(l), (l) / WORKERS); printf(text)
#define BITS(s)            HAS(s, 2), HAS(s, 1), HAS(s, 0)

/* ------------------------------------------------------------------ the group, as the broker has it */

mtype = { EMPTY, PREPARING, COMPLETING, STABLE };
mtype group = STABLE;
byte members;               /* who has a member id: incarnations, and the operator */
byte parked;                /* whose JoinGroup is unanswered */
byte syncing;               /* whose SyncGroup is unanswered */
byte leader = OPERATOR;     /* the broker's choice */
byte reported[INCARNATIONS];           /* the metadata of the last JoinGroup: everything owned, ... */
byte reported_stopping[INCARNATIONS]; /* ... and what of it is still stopping */

/* ------------------------------------------------------------------ incarnations of workers */

/* UP -> CUT (no broker; runs on) -> LAPSED (its lease has ended: it runs nothing) -> UP again, or over.
   Over: DEAD (nobody can prove it), or CORPSE (the host will see it) -> PROVEN. */
mtype = { UNBORN, UP, CUT, LAPSED, DEAD, CORPSE, PROVEN };
mtype state[INCARNATIONS];
byte running[INCARNATIONS]; /* tasks that run here, those included that are stopping */
byte keep[INCARNATIONS];    /* those not told to stop; running - keep is stopping */
byte sent_assigned[INCARNATIONS], sent_revoked[INCARNATIONS];
byte has_assignment;        /* incarnations that were sent an assignment and have not taken it up */
byte must_acknowledge;      /* incarnations that let go of something no assignment has answered yet */
byte worker_faults = WORKER_FAULTS;

#define MAY_RUN(l)   (state[l] == UP || state[l] == CUT)
#ifdef BUG_EVICT_BY_NAME
#define NEXT_INCARNATION(w) ((w) + WORKERS < INCARNATIONS -> (w) + WORKERS : (w))
#define ENDED(l)     (state[ID(l)] == PROVEN || state[NEXT_INCARNATION(ID(l))] == PROVEN)
#else
#define ENDED(l)     (state[l] == PROVEN)
#endif

/* ------------------------------------------------------------------ leading */

#include "planner.pml"

Memory memory;              /* the leader log: survives everybody */
#ifdef BUG_SEND_BEFORE_SAVE
Memory next;                /* planned, sent, and not saved yet */
#else
hidden Memory next;
#endif
bool planned;               /* the plan of this round is saved and not sent */
bool asks;                  /* the leader wants a round: one held now would change an assignment */
mtype = { LEADS, BACK, AWAY, NEVER };
mtype operator = LEADS;     /* BACK: it runs again and does not lead; AWAY: it will be back */
byte operator_faults = OPERATOR_FAULTS;
byte renewed;               /* incarnations whose lease was renewed after memory.gone began to count */

#define CAN_LEAD ((leader == OPERATOR && operator == LEADS) || \
                  (leader < INCARNATIONS && state[leader % INCARNATIONS] == UP))

#include "properties.pml"
#include "group.pml"
#include "leading.pml"
#include "world.pml"

/* Every step is one atomic guarded command; processes are only a way to write them down. */

proctype Incarnation(byte l)
{
end:
  do
  :: worker_steps(l)
  :: fate_steps(l)
  :: deadline_steps(l)
  od
}

proctype Group()
{
end:
  do
  :: broker_steps()
  :: leader_steps()
  :: operator_steps()
  od
}

init
{
  atomic {
    leader = OPERATOR;
    members = BIT(OPERATOR);
    for (i : 0 .. WORKERS - 1) { memory.incarnation[i] = NOBODY }
    for (i : 0 .. INCARNATIONS - 1) { state[i] = UNBORN }
    for (i : 0 .. RUNNING - 1) { state[i] = UP; members = members | BIT(i) }
    for (i : 0 .. TASKS - 1) {
      j = i % RUNNING;
      running[j] = running[j] | BIT(i);
      memory.incarnation[j] = j;
      holder[i] = j + 1; belongs[i] = j + 1
    }
    for (i : 0 .. RUNNING - 1) { keep[i] = running[i]; reported[i] = running[i]; memory.given[i] = running[i] }
    for (i : 0 .. INCARNATIONS - 1) { run Incarnation(i) }
    run Group();
    i = 0; j = 0
  }
  timeout -> d_step { check_rest(); skip }
}
