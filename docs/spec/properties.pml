/* What must be true: ghosts, and assertions on them. Nothing here is read by the protocol.
 * Two more are checked by spin itself: every state without a next step is the one that check_rest describes, and
 * there is no cycle of states (a run without end).
 */

byte holder[TASKS];         /* incarnation + 1 that ran it last and was not seen to have stopped it */
byte sure;                  /* incarnations that a leader may take for ended: lease and margin are over */
byte belongs[TASKS];        /* identity + 1 to which the saved plans gave it: it waits for that one */

/* Nothing runs at two places; nothing starts before the end of its last holder is certain. */
inline check_start(l, t)
{
  for (j : 0 .. INCARNATIONS - 1) { assert(!HAS(running[j], t)) }
  j = holder[t];
  if
  :: j && j - 1 != l ->
    assert(state[j - 1] == PROVEN || HAS(sure, j - 1))
  :: else
  fi
}

/* Two rounds for a move: nothing is assigned in the round of its revocation, or while anybody reports it. */
inline check_two_rounds()
{
  n = 0; k = 0;
  for (i : 0 .. INCARNATIONS - 1) {
    if
    :: HAS(present, i) -> n = n | assigned[i]; k = k | revoked[i] | reported[i]
    :: else
    fi
  }
  assert((n & k) == 0)
}

/* A plan is delivered: the memory on the log knows all that members may run from now on. */
inline check_memory()
{
  for (i : 0 .. INCARNATIONS - 1) {
    if
    :: HAS(members, i) && state[i] != PROVEN ->
      assert(((reported[i] | sent_assigned[i]) & ~memory.unstopped[i] &
              ~(memory.incarnation[ID(i)] == i -> memory.given[ID(i)] : 0)) == 0)
    :: else
    fi
  }
}

/* What a member does not report, it does not run. */
inline learn_who_is_here()
{
  sure = sure & ~present;
  for (i : 0 .. TASKS - 1) {
    j = holder[i];
    if
    :: j && HAS(present, j - 1) && !HAS(seen[j - 1], i) -> holder[i] = 0
    :: else
    fi
  }
}

/* What was given to somebody who is away goes to nobody else, unless its deadline has passed. */
inline check_holds()
{
  for (j : 0 .. TASKS - 1) {
    k = belongs[j];
    if
    :: k && current[k - 1] != NOBODY && !HAS(next.given[k - 1], j) -> belongs[j] = 0; k = 0
    :: else
    fi;
    for (i : 0 .. INCARNATIONS - 1) {
      if
      :: HAS(assigned[i], j) -> assert(!k || k == ID(i) + 1); belongs[j] = ID(i) + 1
      :: else
      fi
    }
  }
}

/* A running task is touched only if that betters the balance (somebody has at least two less), and not at all
   while somebody is waited for. Whatever is not revoked goes on: nothing else ever makes a member stop a task. */
inline check_revocation(l)
{
  least = 255;
  for (j : 0 .. WORKERS - 1) {
    if
    :: current[j] != NOBODY && LOAD(j) < least -> least = LOAD(j)
    :: else
    fi
  }
  if
  :: revoked[l] && current[ID(l)] == l ->
    assert(!waiting && COUNT(revoked[l]) + LOAD(ID(l)) >= least + 2 && LOAD(ID(l)) >= TASKS / receivers)
  :: else
  fi
}

/* The deadline of w has passed: what it was given waits for it no longer. */
inline release(w)
{
  for (j : 0 .. TASKS - 1) { belongs[j] = (belongs[j] == w + 1 -> 0 : belongs[j]) }
}

/* When nothing more can happen: every task runs once, balanced, at the newest incarnation of an identity that is up,
   all who are up are members of a stable group, and nothing is waited for. */
inline check_rest()
{
  n = 0; present = 0;
  for (i : 0 .. WORKERS - 1) { current[i] = NOBODY }
  for (i : 0 .. INCARNATIONS - 1) {
    if
    :: state[i] == UP -> present = present | BIT(i); n = n | running[i]; current[ID(i)] = i
    :: else
    fi
  }
  assert(!present || n == ALL);
  assert(members == (present | (operator == LEADS -> BIT(OPERATOR) : 0)));
  assert(group == (members -> STABLE : EMPTY));
  receivers = 0;
  for (i : 0 .. WORKERS - 1) {
    assert(!present || !memory.held[i]);
    receivers = receivers + (current[i] != NOBODY -> 1 : 0)
  }
  for (i : 0 .. INCARNATIONS - 1) {
    assert(running[i] == keep[i] && (current[ID(i)] == i || !running[i]));
    if
    :: current[ID(i)] == i ->
      assert(COUNT(running[i]) >= TASKS / receivers && COUNT(running[i]) <= (TASKS + receivers - 1) / receivers)
    :: else
    fi
  }
}
