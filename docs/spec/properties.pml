/* What must be true: ghosts, and assertions on them. Nothing here is read by the protocol. */

/* ------------------------------------------------------------------ ghosts: for the properties alone */

byte holder[TASKS];         /* life + 1 that ran it last and was not seen to have stopped it */
byte sure;                  /* lives that a leader may take for ended: lease and margin are over */
byte belongs[TASKS];        /* identity + 1 to which the saved plans gave it: it waits for that one */


/* Nothing runs at two places; nothing starts before the end of its last holder is certain. */
inline check_start(l, t)
{
  for (j : 0 .. LIVES - 1) { assert(!HAS(running[j], t)) }
  j = holder[t];
  if
  :: j && j - 1 != l ->
    assert(life[j - 1] == PROVEN || HAS(sure, j - 1))
  :: else
  fi
}

/* What the members are told now: the properties of a plan. */
inline check_plan()
{
  n = 0; k = 0;
  for (i : 0 .. LIVES - 1) {
    if
    :: HAS(members, i) && life[i] != PROVEN ->
      n = n | share_assigned[i];
      k = k | share_revoked[i] | reported[i];
      /* the memory on the log is not behind: it knows what this member may run from now on */
      assert(((reported[i] | share_assigned[i]) & ~memory.unstopped[i] &
              ~(memory.incarnation[ID(i)] == i -> memory.given[ID(i)] : 0)) == 0)
    :: else
    fi
  }
  assert((n & k) == 0)      /* nothing is assigned in the round of its revocation, or while anybody reports it */
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
    for (i : 0 .. LIVES - 1) {
      if
      :: HAS(assigned[i], j) -> assert(!k || k == ID(i) + 1); belongs[j] = ID(i) + 1
      :: else
      fi
    }
  }
}

/* Balance takes no more than the surplus; and nothing at all while somebody is waited for. */
inline check_revocation(l)
{
  if
  :: revoked[l] && current[ID(l)] == l -> assert(!waiting && LOAD(ID(l)) >= TASKS / receivers)
  :: else
  fi
}

inline release(w)
{
  for (j : 0 .. TASKS - 1) { belongs[j] = (belongs[j] == w + 1 -> 0 : belongs[j]) }
}

inline check_rest()
{
  n = 0; present = 0;
  for (i : 0 .. WORKERS - 1) { current[i] = NOBODY }
  for (i : 0 .. LIVES - 1) {
    if
    :: life[i] == UP -> present = present | BIT(i); n = n | running[i]; current[ID(i)] = i
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
  for (i : 0 .. LIVES - 1) {
    assert(running[i] == keep[i] && (current[ID(i)] == i || !running[i]));
    if
    :: current[ID(i)] == i ->
      assert(COUNT(running[i]) >= TASKS / receivers && COUNT(running[i]) <= (TASKS + receivers - 1) / receivers)
    :: else
    fi
  }
}
