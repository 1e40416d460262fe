/* Preloaded before a program: counts its calls that change the disk and strikes at number
   FAULT_AT, before the call is made. With FAULT_ERRNO the call fails with that error, otherwise the
   process is killed. The file FAULT_MARK then names the call. With NO_LINKS there are no symbolic links. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_int calls;

static int fails(const char *call, const char *what) {
    const char *at = getenv("FAULT_AT"), *error = getenv("FAULT_ERRNO"), *mark = getenv("FAULT_MARK");
    if (!at || !mark) return 0;
    int number = atomic_fetch_add(&calls, 1) + 1;
    if (number != atoi(at)) return 0;
    char text[512];
    int n = snprintf(text, sizeof text, "change %d, %s %s", number, call, what);
    int file = syscall(SYS_openat, AT_FDCWD, mark, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    syscall(SYS_write, file, text, n < (int)sizeof text ? n : (int)sizeof text);
    syscall(SYS_close, file);
    if (!error) {
        kill(getpid(), SIGKILL);
        for (;;) pause();
    }
    errno = atoi(error);
    return 1;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int file, const void *bytes, size_t n) {
    return file > 2 && fails("write", "") ? -1 : NEXT(write)(file, bytes, n);
}

int rename(const char *from, const char *to) {
    return fails("rename", to) ? -1 : NEXT(rename)(from, to);
}

int unlink(const char *path) { return fails("unlink", path) ? -1 : NEXT(unlink)(path); }

int unlinkat(int folder, const char *path, int flags) {
    return fails("unlinkat", path) ? -1 : NEXT(unlinkat)(folder, path, flags);
}

int rmdir(const char *path) { return fails("rmdir", path) ? -1 : NEXT(rmdir)(path); }

int mkdir(const char *path, mode_t mode) {
    return fails("mkdir", path) ? -1 : NEXT(mkdir)(path, mode);
}

int symlink(const char *to, const char *path) {
    if (getenv("NO_LINKS")) {
        errno = EPERM;
        return -1;
    }
    return fails("symlink", path) ? -1 : NEXT(symlink)(to, path);
}

int fsync(int file) { return fails("fsync", "") ? -1 : NEXT(fsync)(file); }

int fdatasync(int file) { return fails("fdatasync", "") ? -1 : NEXT(fdatasync)(file); }

int ftruncate64(int file, off64_t n) {
    return fails("ftruncate", "") ? -1 : NEXT(ftruncate64)(file, n);
}

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    if (flags & (O_CREAT | O_WRONLY | O_RDWR) && fails("open", path)) return -1;
    return NEXT(open64)(path, flags, mode);
}
