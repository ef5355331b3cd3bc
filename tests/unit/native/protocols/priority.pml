/* A channel with a window: tfwave/native/priority_queues.cc, priority_dispatch.cc.

   N transfers, of 1 to 3 bytes by their rank, arrive in any order from two threads. Of those that wait the most
   urgent leaves as long as the bytes in flight fit WINDOW, or nothing is in flight. Its receipt may end in any
   thread, which only tells the dispatcher; one receipt may never end. The deadline lets all go that waits, and
   begins a new lane, in which the old one's bytes do not count.

   BUG: 1 the end of a receipt wakes nobody; 2 the window is not asked for; 3 what is larger than the window waits
        for room; 4 there is no deadline; 5 the least urgent leaves; 6 the old lane's bytes count in the new one. */

#ifndef N
#define N 4
#endif
#ifndef BUG
#define BUG 0
#endif
#define WINDOW 2
#define SIZE(r) ((r % 3) + 1)

bool came[N], waiting[N], left[N], under_way[N], old[N];
byte to_come = N, threads = 2, waits, receipts, in_flight;
bool draining, acknowledged, lost, expired;

/* r: the most urgent that waits, or N. */
inline Best(r) {
  if
  :: BUG != 5 ->
     r = 0;
     do
     :: r < N && !waiting[r] -> r++
     :: else -> break
     od
  :: else ->
     r = N;
     do
     :: r > 0 && !waiting[r - 1] -> r--
     :: else -> break
     od;
     r = (r == 0 -> N : r - 1)
  fi
}

/* r becomes what may leave now, which is taken, or N. */
inline Take(r) {
  Best(r);
  if
  :: r < N && (in_flight + SIZE(r) <= WINDOW || (in_flight == 0 && BUG != 3) || BUG == 2) ->
     waiting[r] = false;
     waits--;
     under_way[r] = true;
     in_flight = in_flight + SIZE(r);
     assert(in_flight <= WINDOW || in_flight == SIZE(r));
     other = 0;
     do
     :: other < r -> assert(!waiting[other]); other++
     :: else -> break
     od;
     other = 0
  :: else -> r = N
  fi;
  draining = (r < N)
}

inline Drain(r) {
  if
  :: draining -> r = N
  :: else -> Take(r)
  fi
}

inline HandOff(r) {
  do
  :: r < N ->
     d_step { assert(!left[r]); left[r] = true; receipts++ }
     d_step { Take(r) }
  :: else -> break
  od
}

active [2] proctype Sender() {
  byte r, mine, other;
  do
  :: atomic {
       to_come > 0 ->
       select(mine : 0 .. N - 1);
       r = N;
       if
       :: came[mine] -> skip
       :: else -> came[mine] = true; to_come--; waiting[mine] = true; waits++; d_step { Drain(r) }
       fi
     }
     HandOff(r)
  :: atomic { to_come == 0 -> threads--; break }
  od
}

/* Receipts end in any order; one may not. */
active proctype Receiver() {
  byte r;
end:
  do
  :: atomic {
       receipts > 0 ->
       select(r : 0 .. N - 1);
       if
       :: !(under_way[r] && left[r]) -> skip
       :: under_way[r] && left[r] ->
          in_flight = (old[r] -> in_flight : in_flight - SIZE(r));
          under_way[r] = false;
          receipts--;
          acknowledged = (BUG != 1)
       :: under_way[r] && left[r] && !lost -> lost = true; under_way[r] = false; receipts--
       fi;
       r = 0
     }
  od
}

active proctype Dispatcher() {
  byte r = N, other;
  do
  :: atomic { acknowledged -> acknowledged = false; d_step { Drain(r) } }
     HandOff(r)
  :: atomic {
       if
       :: timeout && waits > 0 && BUG != 4 -> assert(lost && !expired)  /* nothing else keeps anything waiting */
       :: lost && !expired && waits > 0 && BUG != 4 -> skip
       fi;
       expired = true;
       r = 0;
       do
       :: r < N ->
          if
          :: waiting[r] -> assert(!left[r]); waiting[r] = false; left[r] = true; old[r] = true
          :: else -> old[r] = under_way[r]
          fi;
          r++
       :: else -> break
       od;
       waits = 0;
       in_flight = (BUG == 6 -> in_flight : 0);
       r = N
     }
  :: atomic { threads == 0 && waits == 0 && receipts == 0 && !draining && !acknowledged -> break }
  od;
  atomic {
    r = 0;
    do
    :: r < N -> assert(left[r]); r++
    :: else -> break
    od;
    assert(lost || in_flight == 0)
  }
}
