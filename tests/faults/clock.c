// The wall clock of a process, wrong by as many seconds as the file TFWAVE_FAULTS_CLOCK says: loaded by LD_PRELOAD.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const long long* wrong_by;

__attribute__((constructor)) static void open_file(void) {
  const char* path = getenv("TFWAVE_FAULTS_CLOCK");
  const int file = path ? open(path, O_RDONLY) : -1;
  if (file < 0) return;
  void* found = mmap(NULL, sizeof(long long), PROT_READ, MAP_SHARED, file, 0);
  if (found != MAP_FAILED) wrong_by = found;
  close(file);
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  const int failed = syscall(SYS_clock_gettime, clock, now);
  if (!failed && wrong_by && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *wrong_by;
  return failed;
}

int gettimeofday(struct timeval* now, void* zone) {
  (void)zone;
  struct timespec precise;
  if (clock_gettime(CLOCK_REALTIME, &precise)) return -1;
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* now) {
  struct timespec precise;
  clock_gettime(CLOCK_REALTIME, &precise);
  if (now) *now = precise.tv_sec;
  return precise.tv_sec;
}
