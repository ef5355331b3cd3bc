// The one hook of this process, shared by all servers in it: steps and channels tell them apart; its one ledger, its one
// stash, and the groups that it exchanges splits in.
#ifndef TFWAVE_NATIVE_PROCESS_H_
#define TFWAVE_NATIVE_PROCESS_H_

#include "exchange/all_to_all_groups.h"
#include "order/arrival_log.h"
#include "order/hand_off_log.h"
#include "order/hooked_tasks.h"
#include "order/last_function.h"
#include "pool/ledger.h"
#include "order/pacer.h"
#include "order/sequencer.h"
#include "order/shallow_sockets.h"
#include "pool/stash.h"

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
