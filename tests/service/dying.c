// A preloaded library that makes a daemon crash within CUDA or with a broken heap.
#define _dl_find_object declared_by_newer_libraries
#include <dlfcn.h>
#include <link.h>
#undef _dl_find_object
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);

// CUDA reserves these addresses, below every program.
__attribute__((constructor)) static void reserve(void) {
    mmap((void *)0x200000000, 0x200000, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);
}

// After the alarm of the crash report, memory and the loader's list of libraries block forever, like behind a lock that the
// crashed thread itself holds.
static __thread int dying;
unsigned alarm(unsigned seconds) {
    struct itimerval timer = {.it_value.tv_sec = seconds};
    dying = getenv("BROKEN_HEAP") != NULL;
    return setitimer(ITIMER_REAL, &timer, NULL);
}
static void wait_if_broken(void) {
    while (dying) pause();
}
int dl_iterate_phdr(int (*visit)(struct dl_phdr_info *, size_t, void *), void *data) {
    int (*real)(int (*)(struct dl_phdr_info *, size_t, void *), void *) = dlsym(RTLD_NEXT, "dl_iterate_phdr");
    return wait_if_broken(), real(visit, data);
}
int _dl_find_object(void *place, void *found) {
    int (*real)(void *, void *) = dlsym(RTLD_NEXT, "_dl_find_object");
    return wait_if_broken(), real(place, found);
}
void *malloc(size_t bytes) { return wait_if_broken(), __libc_malloc(bytes); }
void *calloc(size_t count, size_t bytes) { return wait_if_broken(), __libc_calloc(count, bytes); }
void *realloc(void *old, size_t bytes) { return wait_if_broken(), __libc_realloc(old, bytes); }
