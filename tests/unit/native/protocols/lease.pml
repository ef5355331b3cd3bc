/* The lease of a plan: tfwave/runtime/control/lease.py, service.py.

   A client installs plans with and without a lease, removes them, and may stop at any time. Time passes when it
   likes. A thread waits for the lease's end, and then takes the plan away, under the lock under which plans change.

   Claims: only a plan with a lease is ever taken away, and none that came after the one whose lease ran out; a plan
   with a lease does not outlive its client.

   BUG: 1 who takes a plan away does not ask whether others came; 2 asks only whether a lease runs; 3 a lease that
        follows an ended one is waited for by nobody. */

#ifndef CALLS
#define CALLS 4
#endif
#ifndef BUG
#define BUG 0
#endif

bool leased, due, watched, ran_out;  /* of class Lease */
bool changing;                       /* the service's lock */
byte plan, of_lease;                 /* numbers: of the plan in force; of the one whose lease ran out */
bool has_lease;                      /* of the plan in force */
byte calls;
bool gone, thread;

inline Lock() { atomic { !changing -> changing = true } }
inline Unlock() { changing = false }

inline Grant(seconds) {
  atomic {
    leased = seconds;
    due = false;
    ran_out = false;
    if
    :: seconds && !watched && !(BUG == 3 && calls > 1) -> watched = true; thread = true
    :: else
    fi
  }
}

active proctype Client() {
  do
  :: calls < CALLS ->
     calls++;
     atomic { due = false }  /* each call renews */
     Lock();
     if
     :: atomic { plan = calls; has_lease = true } Grant(true)
     :: atomic { plan = calls; has_lease = false } Grant(false)
     :: atomic { plan = 0; has_lease = false } Grant(false)
     fi;
     Unlock()
  :: break
  od;
  gone = true
}

active proctype Time() {
end:
  do
  :: atomic { leased && !due -> due = true }
  od
}

active proctype Watch() {
  bool ends;
end:
  do
  :: thread ->
     atomic {
       (leased && due) || !leased ->
       ran_out = leased;
       of_lease = (leased -> plan : 0);
       leased = false;
       watched = ran_out;
       thread = ran_out;
       ends = ran_out
     }
     if
     :: ends ->
        Lock();
        atomic {
          if
          :: ran_out || BUG == 1 || (BUG == 2 && !leased) ->
             assert(plan == 0 || plan == of_lease && has_lease);
             plan = 0;
             has_lease = false
          :: else
          fi
        }
        Unlock()
     :: else
     fi
  od
}

active proctype End() {
  atomic { gone && timeout -> assert(!has_lease) }
}
