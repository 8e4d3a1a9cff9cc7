/* A disk that a test can fill, and whose power can fail. Preloaded into a server.

   DISK_SYNCED: a file that gets "size path" for each successful sync of an append-only file: so much of it
   would be there after a power cut. The size is taken before the sync, the least that can be promised.
   DISK_FULL: while a file of this name is there, writes to append-only files fail for want of space. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int path_of(int fd, char *path, size_t room) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, room - 1);
    if (n <= 0) return 0;
    path[n] = 0;
    return strstr(path, ".aof") != NULL;
}

static void synced(int fd, off_t size) {
    static int log_fd = -2;
    char path[1024], line[1100];
    if (!path_of(fd, path, sizeof path)) return;
    if (log_fd == -2) {
        const char *name = getenv("DISK_SYNCED");
        log_fd = name ? open(name, O_WRONLY | O_CREAT | O_APPEND, 0644) : -1;
    }
    if (log_fd < 0) return;
    int n = snprintf(line, sizeof line, "%ld %s\n", (long)size, path);
    if (write(log_fd, line, n) != n) abort();
}

static int sync_with(const char *name, int fd) {
    int (*real)(int) = dlsym(RTLD_NEXT, name);
    struct stat before;
    int known = fstat(fd, &before) == 0;
    char path[1024];
    /* A disk takes its time, in which the power may fail. */
    if (path_of(fd, path, sizeof path)) usleep(2000);
    int result = real(fd);
    if (result == 0 && known) synced(fd, before.st_size);
    return result;
}

int fsync(int fd) { return sync_with("fsync", fd); }
int fdatasync(int fd) { return sync_with("fdatasync", fd); }

ssize_t write(int fd, const void *data, size_t size) {
    static ssize_t (*real)(int, const void *, size_t);
    char path[1024];
    if (!real) real = dlsym(RTLD_NEXT, "write");
    const char *full = getenv("DISK_FULL");
    if (full && access(full, F_OK) == 0 && path_of(fd, path, sizeof path)) {
        errno = ENOSPC;
        return -1;
    }
    return real(fd, data, size);
}
