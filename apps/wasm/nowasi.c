/* nowasi.c - the host calls that wasi-libc names, answered inside the module, so that it has no imports at all. Nothing that
 * the core does needs them: it opens no file, the environment is empty, and the clock, which only measures passes, stands
 * still. Whoever adds a use of another sees it as an import, which a test forbids. */
#include <stdint.h>

enum { ENOSYS_OF_WASI = 52 };

int32_t __imported_wasi_snapshot_preview1_clock_time_get(int32_t clock, int64_t precision, int32_t time);
int32_t __imported_wasi_snapshot_preview1_environ_get(int32_t strings, int32_t bytes);
int32_t __imported_wasi_snapshot_preview1_environ_sizes_get(int32_t count, int32_t nbytes);
_Noreturn void __imported_wasi_snapshot_preview1_proc_exit(int32_t status);
int32_t __imported_wasi_snapshot_preview1_fd_close(int32_t fd);
int32_t __imported_wasi_snapshot_preview1_fd_seek(int32_t fd, int64_t offset, int32_t whence, int32_t result);
int32_t __imported_wasi_snapshot_preview1_fd_write(int32_t fd, int32_t iov, int32_t n, int32_t result);

int32_t __imported_wasi_snapshot_preview1_clock_time_get(int32_t clock, int64_t precision, int32_t time)
{
    (void)clock;
    (void)precision;
    *(uint64_t *)(uintptr_t)time = 0;
    return 0;
}

int32_t __imported_wasi_snapshot_preview1_environ_get(int32_t strings, int32_t bytes)
{
    (void)strings;
    (void)bytes;
    return 0;
}

int32_t __imported_wasi_snapshot_preview1_environ_sizes_get(int32_t count, int32_t nbytes)
{
    *(uint32_t *)(uintptr_t)count = 0;
    *(uint32_t *)(uintptr_t)nbytes = 0;
    return 0;
}

_Noreturn void __imported_wasi_snapshot_preview1_proc_exit(int32_t status)
{
    (void)status;
    __builtin_trap();
}

int32_t __imported_wasi_snapshot_preview1_fd_close(int32_t fd)
{
    (void)fd;
    return ENOSYS_OF_WASI;
}

int32_t __imported_wasi_snapshot_preview1_fd_seek(int32_t fd, int64_t offset, int32_t whence, int32_t result)
{
    (void)fd;
    (void)offset;
    (void)whence;
    (void)result;
    return ENOSYS_OF_WASI;
}

int32_t __imported_wasi_snapshot_preview1_fd_write(int32_t fd, int32_t iov, int32_t n, int32_t result)
{
    (void)fd;
    (void)iov;
    (void)n;
    (void)result;
    return ENOSYS_OF_WASI;
}
