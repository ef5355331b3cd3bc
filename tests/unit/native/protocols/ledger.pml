/* The ledger of a pool: tfwave/native/ledger.cc, ledger_admission.cc.

   JOBS jobs run STEPS steps of two groups each. A group asks before it starts; who gets no answer waits in order of
   arrival. A request is answered only if there is room for what runs, and if all begun steps could still be finished
   one after the other: a banker. A step may end before its last group, and one while it waits.

   A job holds 1 between steps and before its first group, 2 in it and after it, and 4 in its second group. ROOM is
   what all hold between steps and the most that one takes in its step.

   BUG: 1 only the room is asked for; 2 the end of a step settles nothing; 3 the room is not asked for; 4 within a
        step a request is behind older ones, too; 5 what ends early holds its bytes on. */

#ifndef JOBS
#define JOBS 3
#endif
#ifndef STEPS
#define STEPS 2
#endif
#ifndef BUG
#define BUG 0
#endif
#define ROOM (JOBS + 3)
#define NOBODY 255
#define BEFORE(g) ((g == 0 || g == 2) -> 1 : 2)
#define DURING(g) (g == 0 -> 2 : 4)
#define HELD(j) (running[j] -> DURING(group[j]) : BEFORE(group[j]))
#define BEGUN(j) (running[j] || group[j] == 1)
#define AFTER_THIS(j) (group[j] + running[j])

byte group[JOBS];  /* that runs, or is next */
bool running[JOBS], waits[JOBS], done[JOBS];
byte queue[JOBS], queued;
byte total, finished, i, k, tried, held;
bool safe, changed, cancelled;

inline AddUp() {
  total = 0;
  i = 0;
  do
  :: i < JOBS -> total = total + HELD(i); i++
  :: else -> break
  od
}

/* safe: can the begun steps be finished one after the other, once the groups that run have ended? */
inline CanFinish() {
  held = 0;
  i = 0;
  do
  :: i < JOBS ->
     done[i] = !BEGUN(i) || AFTER_THIS(i) == 2;
     held = held + (done[i] -> 1 : BEFORE(AFTER_THIS(i)));
     i++
  :: else -> break
  od;
  changed = true;
  do
  :: changed ->
     changed = false;
     i = 0;
     do
     :: i < JOBS && !done[i] && held - BEFORE(AFTER_THIS(i)) + 4 <= ROOM ->
        done[i] = true;
        changed = true;
        held = held - BEFORE(AFTER_THIS(i)) + 1;
        i++
     :: i < JOBS && (done[i] || held - BEFORE(AFTER_THIS(i)) + 4 > ROOM) -> i++
     :: i == JOBS -> break
     od
  :: else -> break
  od;
  safe = true;
  i = 0;
  do
  :: i < JOBS -> safe = safe && done[i]; i++
  :: else -> break
  od
}

/* Starts the first that may, again and again. */
inline Settle() {
  k = 0;
  do
  :: k < queued ->
     tried = queue[k];
     if
     :: k > 0 && (group[tried] == 0 || BUG == 4) -> k++  /* a new step is behind older requests */
     :: else ->
        running[tried] = true;
        AddUp();
        CanFinish();
        if
        :: (total <= ROOM || BUG == 3) && (safe || BUG == 1 || BUG == 3) ->
           waits[tried] = false;
           TakeOut();
           k = 0
        :: else -> running[tried] = false; k++
        fi
     fi
  :: else -> break
  od;
  AddUp();
  assert(total <= ROOM);
  total = 0; tried = 0; held = 0; safe = false; changed = false; i = 0; k = 0
}

/* What stands at place k of the queue. */
inline TakeOut() {
  do
  :: k + 1 < queued -> queue[k] = queue[k + 1]; k++
  :: else -> break
  od;
  queued--;
  queue[queued] = 0
}

active [JOBS] proctype Job() {
  byte steps = STEPS;
  do
  :: steps > 0 ->
     do
     :: atomic {
          AFTER_THIS(_pid) < 2 ->
          group[_pid] = AFTER_THIS(_pid);
          running[_pid] = false;
          waits[_pid] = true;
          queue[queued] = _pid;
          queued++;
          d_step { Settle() }
        }
        if
        :: atomic { !waits[_pid] -> skip }
           if
           :: skip
           :: break  /* the step fails in the group */
           fi
        :: atomic {
             waits[_pid] && !cancelled ->
             cancelled = true;
             waits[_pid] = false;
             k = 0;
             do
             :: queue[k] != _pid -> k++
             :: else -> break
             od;
             d_step { TakeOut() }
           }
           break
        fi
     :: else -> break
     od;
     atomic {
       if
       :: BUG != 5 || AFTER_THIS(_pid) == 2 -> group[_pid] = 0; running[_pid] = false
       :: else
       fi;
       if
       :: BUG != 2 -> d_step { Settle() }
       :: else
       fi
     }
     steps--
  :: else -> break
  od;
  finished++
}

active proctype End() {
  finished == JOBS;
  d_step {
    assert(queued == 0);
    AddUp();
    assert(total == JOBS)
  }
}
