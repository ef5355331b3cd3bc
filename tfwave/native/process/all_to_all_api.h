// The all-to-all's C interface; as in api.h, each returns 0, or -1 with a message.
#ifndef TFWAVE_NATIVE_ALL_TO_ALL_API_H_
#define TFWAVE_NATIVE_ALL_TO_ALL_API_H_

#include <cstdint>

extern "C" {

// Forms a group, in place of the one of this name. `sockets`: for each rank a connected, blocking one, which the group
// owns from now on; of the own rank nothing is read.
int32_t tfwave_all_to_all_form(const char* name, int32_t rank, const int32_t* sockets, int32_t ranks,
                               double deadline_seconds, char* message, int64_t size);
// Ends it for all ranks; nothing, if there is none.
int32_t tfwave_all_to_all_leave(const char* name, char* message, int64_t size);
// -1 with the reason, if it has ended.
int32_t tfwave_all_to_all_check(const char* name, char* message, int64_t size);

}  // extern "C"

#endif  // TFWAVE_NATIVE_ALL_TO_ALL_API_H_
