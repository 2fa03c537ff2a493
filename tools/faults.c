// Preloaded into a process (LD_PRELOAD): lets its n-th call that changes a file fail, or kills the process there.
//
// FAULT_AT is the number of the call, FAULT_ERRNO the error that it returns (0: the process is killed with SIGKILL), and
// FAULT_UNDER the directory whose files count. FAULT_LOG is a file that the number of calls is written to at the end.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static long n_calls;

static int number(const char* name) {
    const char* value = getenv(name);
    return value ? atoi(value) : 0;
}

static int is_watched(const char* path) {
    const char* under = getenv("FAULT_UNDER");
    return under && strncmp(path, under, strlen(under)) == 0;
}

static int is_watched_file(int file) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    const ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return is_watched(path);
}

// Returns whether this call is to fail.
static int fails(int watched) {
    if (!watched || !getenv("FAULT_AT")) return 0;
    if (__atomic_add_fetch(&n_calls, 1, __ATOMIC_SEQ_CST) != number("FAULT_AT")) return 0;
    if (!number("FAULT_ERRNO")) kill(getpid(), SIGKILL);
    errno = number("FAULT_ERRNO");
    return 1;
}

__attribute__((destructor)) static void report(void) {
    const char* log = getenv("FAULT_LOG");
    FILE* to = log ? fopen(log, "w") : NULL;
    if (!to) return;
    fprintf(to, "%ld\n", n_calls);
    fclose(to);
}

#define ORIGINAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int file, const void* from, size_t size) {
    return fails(is_watched_file(file)) ? -1 : ORIGINAL(write)(file, from, size);
}
ssize_t pwrite(int file, const void* from, size_t size, off_t at) {
    return fails(is_watched_file(file)) ? -1 : ORIGINAL(pwrite)(file, from, size, at);
}
ssize_t pwrite64(int file, const void* from, size_t size, off64_t at) {
    return fails(is_watched_file(file)) ? -1 : ORIGINAL(pwrite64)(file, from, size, at);
}
int ftruncate64(int file, off64_t size) { return fails(is_watched_file(file)) ? -1 : ORIGINAL(ftruncate64)(file, size); }
int posix_fallocate64(int file, off64_t at, off64_t size) {
    return fails(is_watched_file(file)) ? errno : ORIGINAL(posix_fallocate64)(file, at, size);
}
int fsync(int file) { return fails(is_watched_file(file)) ? -1 : ORIGINAL(fsync)(file); }
int fdatasync(int file) { return fails(is_watched_file(file)) ? -1 : ORIGINAL(fdatasync)(file); }
int rename(const char* from, const char* to) { return fails(is_watched(to)) ? -1 : ORIGINAL(rename)(from, to); }
int renameat2(int from_dir, const char* from, int to_dir, const char* to, unsigned flags) {
    return fails(is_watched(to)) ? -1 : ORIGINAL(renameat2)(from_dir, from, to_dir, to, flags);
}
int mkdir(const char* path, mode_t mode) { return fails(is_watched(path)) ? -1 : ORIGINAL(mkdir)(path, mode); }
int unlink(const char* path) { return fails(is_watched(path)) ? -1 : ORIGINAL(unlink)(path); }
int unlinkat(int dir, const char* path, int flags) {
    return fails(is_watched_file(dir) || is_watched(path)) ? -1 : ORIGINAL(unlinkat)(dir, path, flags);
}
int rmdir(const char* path) { return fails(is_watched(path)) ? -1 : ORIGINAL(rmdir)(path); }
