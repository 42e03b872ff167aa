/* Every function with NULL and with wrong arguments: an error, and no continuation. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "check.h"

static int never(void *cdat, int status)
{
    (void)cdat;
    fprintf(stderr, "a continuation was called with %d\n", status);
    _Exit(9);
}

/* Refused at once. */
#define REFUSED(error, call)                                 \
    do {                                                     \
        errno = 0;                                           \
        CHECK((call) == -1 && errno == (error));             \
        CHECK(atta_last() == 0);                             \
    } while (0)

#define C never, NULL

static char buf[64];
static ssize_t n;
static int fd;
static off_t off;
static int64_t off64;
static struct stat st;
static struct stat64 st64;
static struct statx stx;
static struct statfs fs;
static struct statfs64 fs64;
static struct iovec iov[1] = {{buf, sizeof buf}};

static void null_paths(void)
{
    REFUSED(EFAULT, pxfs_open(NULL, O_RDONLY, &fd, C));
    REFUSED(EFAULT, pxfs_open64(NULL, O_RDONLY, &fd, C));
    REFUSED(EFAULT, pxfs_creat(NULL, 0600, &fd, C));
    REFUSED(EFAULT, pxfs_creat64(NULL, 0600, &fd, C));
    REFUSED(EFAULT, pxfs_openat(AT_FDCWD, NULL, O_RDONLY, 0, &fd, C));
    REFUSED(EFAULT, pxfs_openat64(AT_FDCWD, NULL, O_RDONLY, 0, &fd, C));
    REFUSED(EFAULT, pxfs_truncate(NULL, 0, C));
    REFUSED(EFAULT, pxfs_truncate64(NULL, 0, C));
    REFUSED(EFAULT, pxfs_stat(NULL, &st, C));
    REFUSED(EFAULT, pxfs_stat64(NULL, &st64, C));
    REFUSED(EFAULT, pxfs_lstat(NULL, &st, C));
    REFUSED(EFAULT, pxfs_lstat64(NULL, &st64, C));
    REFUSED(EFAULT, pxfs_fstatat(AT_FDCWD, NULL, &st, 0, C));
    REFUSED(EFAULT, pxfs_fstatat64(AT_FDCWD, NULL, &st64, 0, C));
    REFUSED(EFAULT, pxfs_statx(AT_FDCWD, NULL, 0, STATX_ALL, &stx, C));
    REFUSED(EFAULT, pxfs_statfs(NULL, &fs, C));
    REFUSED(EFAULT, pxfs_statfs64(NULL, &fs64, C));
    REFUSED(EFAULT, pxfs_access(NULL, F_OK, C));
    REFUSED(EFAULT, pxfs_faccessat(AT_FDCWD, NULL, F_OK, 0, C));
    REFUSED(EFAULT, pxfs_chmod(NULL, 0600, C));
    REFUSED(EFAULT, pxfs_fchmodat(AT_FDCWD, NULL, 0600, 0, C));
    REFUSED(EFAULT, pxfs_chown(NULL, 0, 0, C));
    REFUSED(EFAULT, pxfs_lchown(NULL, 0, 0, C));
    REFUSED(EFAULT, pxfs_fchownat(AT_FDCWD, NULL, 0, 0, 0, C));
    REFUSED(EFAULT, pxfs_utimensat(AT_FDCWD, NULL, NULL, 0, C));
    REFUSED(EFAULT, pxfs_unlink(NULL, C));
    REFUSED(EFAULT, pxfs_unlinkat(AT_FDCWD, NULL, 0, C));
    REFUSED(EFAULT, pxfs_rmdir(NULL, C));
    REFUSED(EFAULT, pxfs_mkdir(NULL, 0700, C));
    REFUSED(EFAULT, pxfs_mkdirat(AT_FDCWD, NULL, 0700, C));
    REFUSED(EFAULT, pxfs_rename(NULL, "b", C));
    REFUSED(EFAULT, pxfs_rename("a", NULL, C));
    REFUSED(EFAULT, pxfs_renameat(AT_FDCWD, NULL, AT_FDCWD, "b", C));
    REFUSED(EFAULT, pxfs_renameat2(AT_FDCWD, "a", AT_FDCWD, NULL, 0, C));
    REFUSED(EFAULT, pxfs_symlink(NULL, "b", C));
    REFUSED(EFAULT, pxfs_symlink("a", NULL, C));
    REFUSED(EFAULT, pxfs_symlinkat("a", AT_FDCWD, NULL, C));
    REFUSED(EFAULT, pxfs_link(NULL, "b", C));
    REFUSED(EFAULT, pxfs_link("a", NULL, C));
    REFUSED(EFAULT, pxfs_linkat(AT_FDCWD, "a", AT_FDCWD, NULL, 0, C));
    REFUSED(EFAULT, pxfs_readlink(NULL, buf, sizeof buf, &n, C));
    REFUSED(EFAULT, pxfs_readlinkat(AT_FDCWD, NULL, buf, sizeof buf, &n, C));
    REFUSED(EFAULT, pxfs_getxattr(NULL, "user.a", buf, sizeof buf, &n, C));
    REFUSED(EFAULT, pxfs_lgetxattr(NULL, "user.a", buf, sizeof buf, &n, C));
    REFUSED(EFAULT, pxfs_setxattr(NULL, "user.a", buf, 1, 0, C));
    REFUSED(EFAULT, pxfs_lsetxattr(NULL, "user.a", buf, 1, 0, C));
    REFUSED(EFAULT, pxfs_listxattr(NULL, buf, sizeof buf, &n, C));
    REFUSED(EFAULT, pxfs_llistxattr(NULL, buf, sizeof buf, &n, C));
    REFUSED(EFAULT, pxfs_removexattr(NULL, "user.a", C));
    REFUSED(EFAULT, pxfs_lremovexattr(NULL, "user.a", C));
}

static void null_memory(void)
{
    REFUSED(EFAULT, pxfs_open("/", O_RDONLY, NULL, C));
    REFUSED(EFAULT, pxfs_creat("/x", 0600, NULL, C));
    REFUSED(EFAULT, pxfs_openat(AT_FDCWD, "/", O_RDONLY, 0, NULL, C));
    REFUSED(EFAULT, pxfs_read(0, NULL, 1, &n, C));
    REFUSED(EFAULT, pxfs_read(0, buf, 1, NULL, C));
    REFUSED(EFAULT, pxfs_pread(0, NULL, 1, 0, &n, C));
    REFUSED(EFAULT, pxfs_pread64(0, buf, 1, 0, NULL, C));
    REFUSED(EFAULT, pxfs_readv(0, NULL, 1, &n, C));
    REFUSED(EFAULT, pxfs_readv(0, iov, 1, NULL, C));
    REFUSED(EFAULT, pxfs_preadv(0, NULL, 1, 0, &n, C));
    REFUSED(EFAULT, pxfs_preadv64(0, iov, 1, 0, NULL, C));
    REFUSED(EFAULT, pxfs_write(0, NULL, 1, &n, C));
    REFUSED(EFAULT, pxfs_write(0, buf, 1, NULL, C));
    REFUSED(EFAULT, pxfs_pwrite(0, NULL, 1, 0, &n, C));
    REFUSED(EFAULT, pxfs_pwrite64(0, buf, 1, 0, NULL, C));
    REFUSED(EFAULT, pxfs_writev(0, NULL, 1, &n, C));
    REFUSED(EFAULT, pxfs_pwritev(0, NULL, 1, 0, &n, C));
    REFUSED(EFAULT, pxfs_pwritev64(0, iov, 1, 0, NULL, C));
    REFUSED(EFAULT, pxfs_lseek(0, 0, SEEK_CUR, NULL, C));
    REFUSED(EFAULT, pxfs_lseek64(0, 0, SEEK_CUR, NULL, C));
    REFUSED(EFAULT, pxfs_copy_file_range(0, NULL, 1, &off64, 1, 0, &n, C));
    REFUSED(EFAULT, pxfs_copy_file_range(0, &off64, 1, NULL, 1, 0, &n, C));
    REFUSED(EFAULT, pxfs_copy_file_range(0, &off64, 1, &off64, 1, 0, NULL, C));
    REFUSED(EFAULT, pxfs_stat("/", NULL, C));
    REFUSED(EFAULT, pxfs_stat64("/", NULL, C));
    REFUSED(EFAULT, pxfs_lstat("/", NULL, C));
    REFUSED(EFAULT, pxfs_lstat64("/", NULL, C));
    REFUSED(EFAULT, pxfs_fstat(0, NULL, C));
    REFUSED(EFAULT, pxfs_fstat64(0, NULL, C));
    REFUSED(EFAULT, pxfs_fstatat(AT_FDCWD, "/", NULL, 0, C));
    REFUSED(EFAULT, pxfs_statx(AT_FDCWD, "/", 0, STATX_ALL, NULL, C));
    REFUSED(EFAULT, pxfs_statfs("/", NULL, C));
    REFUSED(EFAULT, pxfs_fstatfs(0, NULL, C));
    REFUSED(EFAULT, pxfs_fstatfs64(0, NULL, C));
    REFUSED(EFAULT, pxfs_readlink("/", NULL, 1, &n, C));
    REFUSED(EFAULT, pxfs_readlink("/", buf, 1, NULL, C));
    REFUSED(EFAULT, pxfs_getxattr("/", NULL, buf, 1, &n, C));
    REFUSED(EFAULT, pxfs_getxattr("/", "user.a", NULL, 1, &n, C));
    REFUSED(EFAULT, pxfs_getxattr("/", "user.a", buf, 1, NULL, C));
    REFUSED(EFAULT, pxfs_fgetxattr(0, NULL, buf, 1, &n, C));
    REFUSED(EFAULT, pxfs_setxattr("/", NULL, buf, 1, 0, C));
    REFUSED(EFAULT, pxfs_fsetxattr(0, "user.a", NULL, 1, 0, C));
    REFUSED(EFAULT, pxfs_listxattr("/", NULL, 1, &n, C));
    REFUSED(EFAULT, pxfs_flistxattr(0, buf, 1, NULL, C));
    REFUSED(EFAULT, pxfs_removexattr("/", NULL, C));
    REFUSED(EFAULT, pxfs_fremovexattr(0, NULL, C));
    REFUSED(EFAULT, pxfs_getdents(0, NULL, 1, &n, C));
    REFUSED(EFAULT, pxfs_getdents(0, buf, 1, NULL, C));
    REFUSED(EFAULT, atta_counts(NULL));
}

static void bad_descriptors(int bad)
{
    REFUSED(EBADF, pxfs_close(bad, C));
    REFUSED(EBADF, pxfs_read(bad, buf, 1, &n, C));
    REFUSED(EBADF, pxfs_pread(bad, buf, 1, 0, &n, C));
    REFUSED(EBADF, pxfs_readv(bad, iov, 1, &n, C));
    REFUSED(EBADF, pxfs_preadv(bad, iov, 1, 0, &n, C));
    REFUSED(EBADF, pxfs_write(bad, buf, 1, &n, C));
    REFUSED(EBADF, pxfs_pwrite(bad, buf, 1, 0, &n, C));
    REFUSED(EBADF, pxfs_writev(bad, iov, 1, &n, C));
    REFUSED(EBADF, pxfs_pwritev(bad, iov, 1, 0, &n, C));
    REFUSED(EBADF, pxfs_lseek(bad, 0, SEEK_SET, &off, C));
    REFUSED(EBADF, pxfs_copy_file_range(bad, &off64, 1, &off64, 1, 0, &n, C));
    REFUSED(EBADF, pxfs_copy_file_range(0, &off64, bad, &off64, 1, 0, &n, C));
    REFUSED(EBADF, pxfs_ftruncate(bad, 0, C));
    REFUSED(EBADF, pxfs_ftruncate64(bad, 0, C));
    REFUSED(EBADF, pxfs_fallocate(bad, 0, 1, C));
    REFUSED(EBADF, pxfs_fallocate64(bad, 0, 1, C));
    REFUSED(EBADF, pxfs_fallocate_mode(bad, 0, 0, 1, C));
    REFUSED(EBADF, pxfs_fsync(bad, C));
    REFUSED(EBADF, pxfs_fdatasync(bad, C));
    REFUSED(EBADF, pxfs_sync_file_range(bad, 0, 1, 0, C));
    REFUSED(EBADF, pxfs_fadvise(bad, 0, 1, POSIX_FADV_NORMAL, C));
    REFUSED(EBADF, pxfs_fadvise64(bad, 0, 1, POSIX_FADV_NORMAL, C));
    REFUSED(EBADF, pxfs_fstat(bad, &st, C));
    REFUSED(EBADF, pxfs_fstat64(bad, &st64, C));
    REFUSED(EBADF, pxfs_fstatfs(bad, &fs, C));
    REFUSED(EBADF, pxfs_fstatfs64(bad, &fs64, C));
    REFUSED(EBADF, pxfs_fchmod(bad, 0600, C));
    REFUSED(EBADF, pxfs_fchown(bad, 0, 0, C));
    REFUSED(EBADF, pxfs_futimens(bad, NULL, C));
    REFUSED(EBADF, pxfs_fgetxattr(bad, "user.a", buf, 1, &n, C));
    REFUSED(EBADF, pxfs_fsetxattr(bad, "user.a", buf, 1, 0, C));
    REFUSED(EBADF, pxfs_flistxattr(bad, buf, 1, &n, C));
    REFUSED(EBADF, pxfs_fremovexattr(bad, "user.a", C));
    REFUSED(EBADF, pxfs_getdents(bad, buf, sizeof buf, &n, C));
}

static void bad_numbers(void)
{
    REFUSED(EINVAL, pxfs_pread(0, buf, 1, -1, &n, C));
    REFUSED(EINVAL, pxfs_pwrite64(0, buf, 1, -1, &n, C));
    REFUSED(EINVAL, pxfs_preadv(0, iov, 1, -1, &n, C));
    REFUSED(EINVAL, pxfs_readv(0, iov, -1, &n, C));
    REFUSED(EINVAL, pxfs_writev(0, iov, IOV_MAX + 1, &n, C));
    REFUSED(EINVAL, pxfs_read(0, buf, SIZE_MAX, &n, C));
    REFUSED(EINVAL, pxfs_ftruncate(0, -1, C));
    REFUSED(EINVAL, pxfs_truncate("/x", -1, C));
    REFUSED(EINVAL, pxfs_fallocate(0, -1, 1, C));
    REFUSED(EINVAL, pxfs_fallocate_mode(0, 0, 0, -1, C));
    REFUSED(EOPNOTSUPP, pxfs_fallocate_mode(0, FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_KEEP_SIZE, 0, 1, C));
    REFUSED(EINVAL, pxfs_fadvise(0, 0, -1, 0, C));
    REFUSED(EINVAL, pxfs_sync_file_range(0, -1, 1, 0, C));
    REFUSED(EINVAL, pxfs_fchmodat(AT_FDCWD, "/x", 0600, 1 << 30, C));
    REFUSED(EOPNOTSUPP, pxfs_fchmodat(AT_FDCWD, "/x", 0600, AT_SYMLINK_NOFOLLOW, C));
    REFUSED(EINVAL, pxfs_copy_file_range(0, &off64, 1, &off64, 1, 9, &n, C));
    REFUSED(ENOENT, pxfs_stat("", &st, C));
    REFUSED(ENOENT, pxfs_fstatat(AT_FDCWD, "", &st, 0, C));
    REFUSED(ENOENT, pxfs_unlink("", C));
    REFUSED(ENOENT, pxfs_symlink("", "/x", C));
}

/* What only the kernel knows to be wrong comes as the status. */
static void wrong_for_the_kernel(const char *directory)
{
    int closed = dup2(0, 500), other = -1;
    char path[4096];
    struct iovec hole[1] = {{NULL, 4}};
    CHECK(closed >= 0 && close(closed) == 0);
    CHECK(ended(pxfs_read(closed, buf, 1, &n, NULL, NULL)) == EBADF);
    CHECK(ended(pxfs_pwrite(closed, buf, 1, 0, &n, NULL, NULL)) == EBADF);
    CHECK(ended(pxfs_fstat(closed, &st, NULL, NULL)) == EBADF);
    CHECK(ended(pxfs_fsync(closed, NULL, NULL)) == EBADF);
    CHECK(ended(pxfs_close(closed, NULL, NULL)) == EBADF);
    CHECK(ended(pxfs_getdents(closed, buf, sizeof buf, &n, NULL, NULL)) == EBADF);
    CHECK(ended(pxfs_unlinkat(closed, "a", 0, NULL, NULL)) == EBADF);
    CHECK(ended(pxfs_unlinkat(AT_FDCWD, "/x", 1 << 30, NULL, NULL)) == EINVAL);
    CHECK(ended(pxfs_renameat2(AT_FDCWD, "/x", AT_FDCWD, "/y", 1u << 30, NULL, NULL)) == EINVAL);
    CHECK(ended(pxfs_linkat(AT_FDCWD, "/x", AT_FDCWD, "/y", 1 << 30, NULL, NULL)) == EINVAL);
    CHECK(ended(pxfs_statx(AT_FDCWD, "/", 1 << 30, STATX_ALL, &stx, NULL, NULL)) == EINVAL);
    CHECK(ended(pxfs_fstatat(AT_FDCWD, "/", &st, 1 << 30, NULL, NULL)) == EINVAL);
    CHECK(ended(pxfs_access("/", 77, NULL, NULL)) == EINVAL);
    CHECK(ended(pxfs_faccessat(AT_FDCWD, "/", F_OK, 1 << 30, NULL, NULL)) == EINVAL);
    CHECK(ended(pxfs_utimensat(AT_FDCWD, "/", NULL, 1 << 30, NULL, NULL)) == EINVAL);
    CHECK(ended(pxfs_fchownat(AT_FDCWD, "/", 0, 0, 1 << 30, NULL, NULL)) == EINVAL);
    CHECK(ended(pxfs_setxattr(directory, "user.a", "v", 1, 77, NULL, NULL)) == EINVAL);
    CHECK(ended(pxfs_getxattr(directory, "no-class", buf, 1, &n, NULL, NULL)) == EOPNOTSUPP);
    snprintf(path, sizeof path, "%s/file", directory);
    CHECK(ended(pxfs_creat(path, 0600, &fd, NULL, NULL)) == 0);
    CHECK(ended(pxfs_read(fd, buf, 1, &n, NULL, NULL)) == EBADF);
    CHECK(ended(pxfs_fadvise(fd, 0, 1, 77, NULL, NULL)) == EINVAL);
    CHECK(ended(pxfs_fallocate(fd, 0, 0, NULL, NULL)) == EINVAL);
    CHECK(ended(pxfs_sync_file_range(fd, 0, 1, 1u << 30, NULL, NULL)) == EINVAL);
    CHECK(pxfs_writev(fd, hole, 1, &n, C) == -1 && errno == EFAULT);
    CHECK(ended(pxfs_open(path, O_RDONLY | O_DIRECTORY, &other, NULL, NULL)) == ENOTDIR && other == -1);
    CHECK(ended(pxfs_truncate(directory, 0, NULL, NULL)) == EISDIR);
    CHECK(ended(pxfs_write(fd, NULL, 0, &n, NULL, NULL)) == 0 && n == 0);
    CHECK(ended(pxfs_readlink(path, buf, sizeof buf, &n, NULL, NULL)) == EINVAL);
    CHECK(ended(pxfs_close(fd, NULL, NULL)) == 0);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    null_paths();
    null_memory();
    bad_descriptors(-1);
    bad_descriptors(AT_FDCWD);
    bad_descriptors(INT_MIN);
    bad_numbers();
    wrong_for_the_kernel(argv[1]);
    CHECK(atta_shutdown(ATTA_DRAIN, -1) == 0);
    return 0;
}
