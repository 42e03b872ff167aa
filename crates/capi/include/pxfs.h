/* pxfs.h: asynchronous file operations with continuations, in the form of PXFS (Shane Snyder, 2013).
 *
 *     int pxfs_NAME(POSIX arguments..., result pointer where there is one, pxfs_cb cb, void *cdat);
 *
 * A call returns at once. 0: the operation was submitted, and cb(cdat, status) will be called once, by a thread of the
 * library, when it has ended: status is 0 or a positive error number. -1 with errno: nothing was submitted, and cb is not
 * called. cb returns an int, which has no meaning, or nothing (table 3.2 of the thesis): both forms are taken. cb may be
 * NULL; see atta.h for waiting. cb may submit new operations, and must not throw.
 *
 * Paths, names, arrays of iovec and times are read before the call returns. Buffers and results must stay until the
 * operation has ended. Results are stored before cb is called, and only if status is 0.
 *
 * Errors of a call: EFAULT (NULL), EBADF (a negative descriptor), EINVAL (a negative length, wrong flags), ENOENT (an empty
 * path), EAGAIN, ESHUTDOWN, EOWNERDEAD (see atta.h). All others are those of the POSIX calls, and come with status.
 *
 * pxfs_read, pxfs_write, pxfs_readv, pxfs_writev and pxfs_lseek use a position that the library keeps for a descriptor of a
 * regular file or a block device: such operations on one descriptor happen one after the other, in the order in which they
 * were submitted, and never get the same bytes. It begins where the kernel's stands when it is first used. The kernel's then
 * stays where it is, so do not mix them with read(2) and lseek(2); a descriptor from dup(2) has a position of its own; and
 * close with pxfs_close what was used with them. Pipes, sockets, terminals and so on use the kernel's position. Operations
 * with an offset run at the same time; on a pipe or a socket such an operation may ignore its offset instead of failing with
 * ESPIPE.
 */
#ifndef PXFS_H
#define PXFS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#ifdef __cplusplus
#include <type_traits>

extern "C" {
static_assert(sizeof(off_t) == 8, "64-bit Linux");
#else
_Static_assert(sizeof(off_t) == 8, "64-bit Linux");
#endif

/* Complete only where the program asks its system headers for them. */
struct stat64;
struct statx;
struct statfs;
struct statfs64;

/* The two forms of a continuation: that of the functions of PXFS, and that of table 3.2 of the thesis. */
typedef int (*pxfs_cb)(void *cdat, int status);
typedef void (*pxfs_void_cb)(void *cdat, int status);

/* The argument: a continuation of either form, or NULL. Programs do not name it. It is one pointer and is passed as one.
 * The library ignores what comes back, so one call serves both forms. */
#ifdef __cplusplus
} /* templates have no C linkage */

struct pxfs_continuation {
    union {
        pxfs_cb returns_int;
        pxfs_void_cb returns_nothing;
    };

    pxfs_continuation(pxfs_cb function) noexcept : returns_int(function) {}

    template <class F, typename std::enable_if<std::is_convertible<F, pxfs_void_cb>::value, int>::type = 0>
    pxfs_continuation(F function) noexcept : returns_nothing(function)
    {
    }

    /* A lambda without captures. */
    template <class F, typename std::enable_if<std::is_class<F>::value && std::is_convertible<F, pxfs_cb>::value,
                                               long>::type = 0>
    pxfs_continuation(F function) noexcept : returns_int(function)
    {
    }
};

static_assert(sizeof(pxfs_continuation) == sizeof(pxfs_cb), "it is passed as a pointer");
static_assert(std::is_trivially_copyable<pxfs_continuation>::value, "it is passed in a register");

extern "C" {
#else
/* Functions of a system header take such a union without a warning of -Wpedantic. */
#pragma GCC system_header
typedef union {
    pxfs_cb returns_int;
    pxfs_void_cb returns_nothing;
} pxfs_continuation __attribute__((__transparent_union__));
#endif

/* Opening and closing. The mode after cdat is read if flags has O_CREAT or O_TMPFILE. pxfs_creat is POSIX's: the file may
 * be there, and is emptied. */
int pxfs_open(const char *path, int flags, int *fd, pxfs_continuation cb, void *cdat, ...);
int pxfs_open64(const char *path, int flags, int *fd, pxfs_continuation cb, void *cdat, ...);
int pxfs_creat(const char *path, mode_t mode, int *fd, pxfs_continuation cb, void *cdat, ...);
int pxfs_creat64(const char *path, mode_t mode, int *fd, pxfs_continuation cb, void *cdat, ...);
int pxfs_openat(int dirfd, const char *path, int flags, mode_t mode, int *fd, pxfs_continuation cb, void *cdat);
int pxfs_openat64(int dirfd, const char *path, int flags, mode_t mode, int *fd, pxfs_continuation cb, void *cdat);
int pxfs_close(int fd, pxfs_continuation cb, void *cdat);

/* Reading. *bcnt: bytes that were read; 0 at the end of the file. */
int pxfs_read(int fd, void *buf, size_t count, ssize_t *bcnt, pxfs_continuation cb, void *cdat);
int pxfs_pread(int fd, void *buf, size_t count, off_t offset, ssize_t *bcnt, pxfs_continuation cb, void *cdat);
int pxfs_pread64(int fd, void *buf, size_t count, int64_t offset, ssize_t *bcnt, pxfs_continuation cb, void *cdat);
int pxfs_readv(int fd, const struct iovec *iov, int iovcnt, ssize_t *bcnt, pxfs_continuation cb, void *cdat);
int pxfs_preadv(int fd, const struct iovec *iov, int iovcnt, off_t offset, ssize_t *bcnt, pxfs_continuation cb, void *cdat);
int pxfs_preadv64(int fd, const struct iovec *iov, int iovcnt, int64_t offset, ssize_t *bcnt, pxfs_continuation cb, void *cdat);

/* Writing. *bcnt: bytes that were written. */
int pxfs_write(int fd, const void *buf, size_t count, ssize_t *bcnt, pxfs_continuation cb, void *cdat);
int pxfs_pwrite(int fd, const void *buf, size_t count, off_t offset, ssize_t *bcnt, pxfs_continuation cb, void *cdat);
int pxfs_pwrite64(int fd, const void *buf, size_t count, int64_t offset, ssize_t *bcnt, pxfs_continuation cb, void *cdat);
int pxfs_writev(int fd, const struct iovec *iov, int iovcnt, ssize_t *bcnt, pxfs_continuation cb, void *cdat);
int pxfs_pwritev(int fd, const struct iovec *iov, int iovcnt, off_t offset, ssize_t *bcnt, pxfs_continuation cb, void *cdat);
int pxfs_pwritev64(int fd, const struct iovec *iov, int iovcnt, int64_t offset, ssize_t *bcnt, pxfs_continuation cb,
                   void *cdat);

/* The position. */
int pxfs_lseek(int fd, off_t offset, int whence, off_t *offset_out, pxfs_continuation cb, void *cdat);
int pxfs_lseek64(int fd, int64_t offset, int whence, int64_t *offset_out, pxfs_continuation cb, void *cdat);

/* Copies between files at *off_in and *off_out, which must not be NULL and move by *copied; 0 at the end of fd_in. flags
 * must be 0. */
int pxfs_copy_file_range(int fd_in, int64_t *off_in, int fd_out, int64_t *off_out, size_t len, unsigned int flags,
                         ssize_t *copied, pxfs_continuation cb, void *cdat);

/* Length, and what is durable. pxfs_fallocate has the prototype of the program PXFS (the thesis does not list it) and does
 * what posix_fallocate(3) does; pxfs_fallocate_mode is Linux's fallocate(2) with its modes (FALLOC_FL_KEEP_SIZE and so on).
 * Neither makes a file shorter: FALLOC_FL_COLLAPSE_RANGE is refused with EOPNOTSUPP, which is also the status where the
 * file system cannot. */
int pxfs_ftruncate(int fd, off_t length, pxfs_continuation cb, void *cdat);
int pxfs_ftruncate64(int fd, int64_t length, pxfs_continuation cb, void *cdat);
int pxfs_truncate(const char *path, off_t length, pxfs_continuation cb, void *cdat);
int pxfs_truncate64(const char *path, int64_t length, pxfs_continuation cb, void *cdat);
int pxfs_fallocate(int fd, off_t offset, off_t length, pxfs_continuation cb, void *cdat);
int pxfs_fallocate64(int fd, int64_t offset, int64_t length, pxfs_continuation cb, void *cdat);
int pxfs_fallocate_mode(int fd, int mode, off_t offset, off_t length, pxfs_continuation cb, void *cdat);
int pxfs_fallocate_mode64(int fd, int mode, int64_t offset, int64_t length, pxfs_continuation cb, void *cdat);
int pxfs_fsync(int fd, pxfs_continuation cb, void *cdat);
int pxfs_fdatasync(int fd, pxfs_continuation cb, void *cdat);
int pxfs_sync_file_range(int fd, int64_t offset, int64_t nbytes, unsigned int flags, pxfs_continuation cb, void *cdat);
int pxfs_fadvise(int fd, off_t offset, off_t length, int advice, pxfs_continuation cb, void *cdat);
int pxfs_fadvise64(int fd, int64_t offset, int64_t length, int advice, pxfs_continuation cb, void *cdat);

/* Status. */
int pxfs_stat(const char *path, struct stat *buf, pxfs_continuation cb, void *cdat);
int pxfs_stat64(const char *path, struct stat64 *buf, pxfs_continuation cb, void *cdat);
int pxfs_lstat(const char *path, struct stat *buf, pxfs_continuation cb, void *cdat);
int pxfs_lstat64(const char *path, struct stat64 *buf, pxfs_continuation cb, void *cdat);
int pxfs_fstat(int fd, struct stat *buf, pxfs_continuation cb, void *cdat);
int pxfs_fstat64(int fd, struct stat64 *buf, pxfs_continuation cb, void *cdat);
int pxfs_fstatat(int dirfd, const char *path, struct stat *buf, int flags, pxfs_continuation cb, void *cdat);
int pxfs_fstatat64(int dirfd, const char *path, struct stat64 *buf, int flags, pxfs_continuation cb, void *cdat);
int pxfs_statx(int dirfd, const char *path, int flags, unsigned int mask, struct statx *buf, pxfs_continuation cb, void *cdat);
int pxfs_statfs(const char *path, struct statfs *buf, pxfs_continuation cb, void *cdat);
int pxfs_statfs64(const char *path, struct statfs64 *buf, pxfs_continuation cb, void *cdat);
int pxfs_fstatfs(int fd, struct statfs *buf, pxfs_continuation cb, void *cdat);
int pxfs_fstatfs64(int fd, struct statfs64 *buf, pxfs_continuation cb, void *cdat);
int pxfs_access(const char *path, int mode, pxfs_continuation cb, void *cdat);
int pxfs_faccessat(int dirfd, const char *path, int mode, int flags, pxfs_continuation cb, void *cdat);

/* Modes, owners, times. times: access and modification; NULL is now. */
int pxfs_chmod(const char *path, mode_t mode, pxfs_continuation cb, void *cdat);
int pxfs_fchmod(int fd, mode_t mode, pxfs_continuation cb, void *cdat);
int pxfs_fchmodat(int dirfd, const char *path, mode_t mode, int flags, pxfs_continuation cb, void *cdat);
int pxfs_chown(const char *path, uid_t owner, gid_t group, pxfs_continuation cb, void *cdat);
int pxfs_lchown(const char *path, uid_t owner, gid_t group, pxfs_continuation cb, void *cdat);
int pxfs_fchown(int fd, uid_t owner, gid_t group, pxfs_continuation cb, void *cdat);
int pxfs_fchownat(int dirfd, const char *path, uid_t owner, gid_t group, int flags, pxfs_continuation cb, void *cdat);
int pxfs_utimensat(int dirfd, const char *path, const struct timespec times[2], int flags, pxfs_continuation cb, void *cdat);
int pxfs_futimens(int fd, const struct timespec times[2], pxfs_continuation cb, void *cdat);

/* Names. *bcnt of pxfs_readlink: bytes of the target in buf, without a NUL, cut at size. */
int pxfs_unlink(const char *path, pxfs_continuation cb, void *cdat);
int pxfs_unlinkat(int dirfd, const char *path, int flags, pxfs_continuation cb, void *cdat);
int pxfs_rmdir(const char *path, pxfs_continuation cb, void *cdat);
int pxfs_mkdir(const char *path, mode_t mode, pxfs_continuation cb, void *cdat);
int pxfs_mkdirat(int dirfd, const char *path, mode_t mode, pxfs_continuation cb, void *cdat);
int pxfs_rename(const char *from, const char *to, pxfs_continuation cb, void *cdat);
int pxfs_renameat(int fromfd, const char *from, int tofd, const char *to, pxfs_continuation cb, void *cdat);
int pxfs_renameat2(int fromfd, const char *from, int tofd, const char *to, unsigned int flags, pxfs_continuation cb,
                   void *cdat);
int pxfs_symlink(const char *target, const char *path, pxfs_continuation cb, void *cdat);
int pxfs_symlinkat(const char *target, int dirfd, const char *path, pxfs_continuation cb, void *cdat);
int pxfs_link(const char *from, const char *to, pxfs_continuation cb, void *cdat);
int pxfs_linkat(int fromfd, const char *from, int tofd, const char *to, int flags, pxfs_continuation cb, void *cdat);
int pxfs_readlink(const char *path, char *buf, size_t size, ssize_t *bcnt, pxfs_continuation cb, void *cdat);
int pxfs_readlinkat(int dirfd, const char *path, char *buf, size_t size, ssize_t *bcnt, pxfs_continuation cb, void *cdat);

/* Extended attributes. *bcnt: bytes of the value, or of the names with their NULs; size 0 asks how many there are. */
int pxfs_getxattr(const char *path, const char *name, void *value, size_t size, ssize_t *bcnt, pxfs_continuation cb,
                  void *cdat);
int pxfs_lgetxattr(const char *path, const char *name, void *value, size_t size, ssize_t *bcnt, pxfs_continuation cb,
                   void *cdat);
int pxfs_fgetxattr(int fd, const char *name, void *value, size_t size, ssize_t *bcnt, pxfs_continuation cb, void *cdat);
int pxfs_setxattr(const char *path, const char *name, const void *value, size_t size, int flags, pxfs_continuation cb,
                  void *cdat);
int pxfs_lsetxattr(const char *path, const char *name, const void *value, size_t size, int flags, pxfs_continuation cb,
                   void *cdat);
int pxfs_fsetxattr(int fd, const char *name, const void *value, size_t size, int flags, pxfs_continuation cb, void *cdat);
int pxfs_listxattr(const char *path, char *names, size_t size, ssize_t *bcnt, pxfs_continuation cb, void *cdat);
int pxfs_llistxattr(const char *path, char *names, size_t size, ssize_t *bcnt, pxfs_continuation cb, void *cdat);
int pxfs_flistxattr(int fd, char *names, size_t size, ssize_t *bcnt, pxfs_continuation cb, void *cdat);
int pxfs_removexattr(const char *path, const char *name, pxfs_continuation cb, void *cdat);
int pxfs_lremovexattr(const char *path, const char *name, pxfs_continuation cb, void *cdat);
int pxfs_fremovexattr(int fd, const char *name, pxfs_continuation cb, void *cdat);

/* A directory in batches: *bcnt bytes of buf are entries, one after the other; 0 at the end. */
int pxfs_getdents(int fd, void *buf, size_t count, ssize_t *bcnt, pxfs_continuation cb, void *cdat);

/* One entry, as getdents64(2) has it. The next one begins reclen bytes further. */
struct pxfs_dirent {
    uint64_t ino;
    int64_t off;
    uint16_t reclen;
    uint8_t type; /* DT_REG, DT_DIR, ...; DT_UNKNOWN where the file system does not say */
    __extension__ char name[]; /* ends with NUL */
};

#ifdef __cplusplus
}
#endif

#endif
