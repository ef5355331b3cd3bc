// The one hook of this process, shared by all servers in it: steps and channels tell them apart; its one ledger, its one
// stash, and the groups that it exchanges splits in.
#ifndef TFWAVE_NATIVE_PROCESS_H_
#define TFWAVE_NATIVE_PROCESS_H_

#include "all_to_all_groups.h"
#include "arrival_log.h"
#include "hand_off_log.h"
#include "hooked_tasks.h"
#include "last_function.h"
#include "ledger.h"
#include "pacer.h"
#include "sequencer.h"
#include "shallow_sockets.h"
#include "stash.h"

namespace tfwave {

struct Process {
  HandOffLog log{65536};
  ArrivalLog arrivals{65536};
  HookedTasks hooked_tasks;
  LastFunction last_function;
  Pacer pacer;
  ShallowSockets sockets;
  Sequencer sequencer{&log};
  Ledger ledger;
  Stash stash;
  AllToAllGroups groups;
};

// Never destroyed: TensorFlow's threads outlive static destructors.
inline Process& process() {
  static Process* const instance = new Process;
  return *instance;
}

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_PROCESS_H_
