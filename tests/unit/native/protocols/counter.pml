/* The counter of one channel in one step: tfwave/native/sequencer_drain.cc.

   N transfers arrive in any order, from two threads; one of them may be lost. Each leaves in its turn, or once the
   step is released: by its end, by a new plan, or by the deadline, here one process. Whoever finds what may leave
   hands it off without the lock, and looks again; others leave that to him.

   CALM=1: nothing is lost or released, and all must leave in order.
   BUG: 1 turns are not asked for; 2 nobody looks again; 3 two threads hand off at once; 4 there is no deadline. */

#ifndef N
#define N 4
#endif
#ifndef CALM
#define CALM 0
#endif
#ifndef BUG
#define BUG 0
#endif
#define NOBODY 255

bool came[N], held[N], left[N];
byte next, kept;  /* the counter; hand-offs in order */
byte to_come = N, threads = 2, lost = NOBODY;
bool draining, released;

/* r becomes what may leave now, which is taken, or N. */
inline Take(r) {
  r = 0;
  do
  :: r < N && !held[r] -> r++
  :: else -> break
  od;
  if
  :: r < N && (released || r <= next || BUG == 1) -> held[r] = false; next = (released -> next : next + 1)
  :: else -> r = N
  fi;
  draining = (r < N)
}

inline Drain(r) {
  if
  :: draining && BUG != 3 -> r = N
  :: else -> Take(r)
  fi
}

inline HandOff(r) {
  do
  :: r < N ->
     d_step {
       assert(!left[r]);
       assert(released || r == kept);
       left[r] = true;
       kept++
     }
     d_step {
       if
       :: BUG == 2 -> draining = false; r = N
       :: else -> Take(r)
       fi
     }
  :: else -> break
  od
}

active [2] proctype Sender() {
  byte r, mine;
  do
  :: atomic {
       to_come > 0 ->
       select(mine : 0 .. N - 1);
       r = N;
       if
       :: came[mine] -> skip
       :: !came[mine] -> came[mine] = true; to_come--; held[mine] = true; d_step { Drain(r) }
       :: !came[mine] && lost == NOBODY && !CALM -> came[mine] = true; to_come--; lost = mine
       fi
     }
     HandOff(r)
  :: atomic { to_come == 0 -> threads--; break }
  od
}

active proctype Release() {
  byte r = N;
  if
  :: CALM -> skip
  :: !CALM -> atomic { released = true; d_step { Drain(r) } }  /* at any time */
  :: !CALM && BUG == 4 -> skip
  :: !CALM -> atomic { timeout -> released = true; d_step { Drain(r) } }
  fi;
  HandOff(r);
  atomic { threads == 0 && !draining -> r = 0 }
  d_step {
    do
    :: r < N -> assert(!held[r] && (left[r] || r == lost)); r++
    :: else -> break
    od;
    assert(!CALM || kept == N)
  }
}
