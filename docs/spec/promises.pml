/* What must be true of reconciliation.pml. Nothing here is read by the protocol. */

/* No task starts while it runs or stops anywhere else. A lease that may still run is a branch in which it does. */
inline check_start(l, t)
{
  for (j : 0 .. INCARNATIONS - 1) { assert(j == l || !HAS(running[j], t)) }
}

/* The epochs of a task's attempts grow from owner to owner. */
inline check_epoch(l, t, e)
{
#ifdef EPOCHS
  assert(last_owner[t] == 0 || last_owner[t] == l + 1 || e > last_epoch[t]);
  last_owner[t] = l + 1; last_epoch[t] = e
#else
  skip
#endif
}

/* The log covers everything that may run: what runs, and what was given and may still start. */
inline check_log()
{
  for (j : 0 .. INCARNATIONS - 1) {
    if
    :: MAY_RUN(j) ->
      assert((running[j] & ~OCCUPIED(log, j)) == 0);
      assert(!HAS(has_assignment, j) || (sent_assigned[j] & ~OCCUPIED(log, j)) == 0);
      assert(!HAS(answer_there & waits & ~joining, j) ||
             (answer[j] & ~OCCUPIED(log, j)) == 0)
    :: else
    fi
  }
}

/* What the leader knows: each task has at most one occupant between rounds. */
inline check_occupants()
{
  n = 0;
  for (j : 0 .. INCARNATIONS - 1) {
    if
    :: memory.reconciled -> assert((n & OCCUPIED(memory, j)) == 0); n = n | OCCUPIED(memory, j)
    :: else
    fi
  }
}

/* When nothing more can happen: each target is reached, by the newest incarnation of its identity; whoever is there
   is a member; the protocol is the one that policy and members want. */
inline check_rest()
{
  n = 0; k = 0; newest();
  for (i : 0 .. INCARNATIONS - 1) {
    if
    :: state[i] == UP -> k = k | BIT(i); n = n | running[i]; assert(running[i] == keep[i])
    :: else -> assert(!running[i])
    fi
  }
  assert(members == k && (!members || group == STABLE));
  assert(!k || n == ALL);
  for (i : 0 .. INCARNATIONS - 1) {
    assert(!HAS(k, i) || running[i] == (current[ID(i)] == i -> target[ID(i)] : 0))
  }
  assert(!k || memory.reconciled || !asked || OBSTACLE(k));
  assert(!memory.reconciled || !k || (asked && !(k & OLDER)))
}
