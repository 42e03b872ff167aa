/* Every function does what its POSIX namesake does; the results are looked at by the namesakes of POSIX. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <sys/statfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "check.h"

#define DID(call) CHECK(ended(call) == 0)

static int dir;
static ssize_t n;
static char buf[4096];

static void same_time(struct timespec a, struct timespec b)
{
    CHECK(a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec);
}

static void same(const struct stat *a, const struct stat *b)
{
    CHECK(a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_nlink == b->st_nlink);
    CHECK(a->st_mode == b->st_mode && a->st_uid == b->st_uid && a->st_gid == b->st_gid);
    CHECK(a->st_rdev == b->st_rdev && a->st_size == b->st_size);
    CHECK(a->st_blksize == b->st_blksize && a->st_blocks == b->st_blocks);
    same_time(a->st_atim, b->st_atim);
    same_time(a->st_mtim, b->st_mtim);
    same_time(a->st_ctim, b->st_ctim);
}

static int opened(const char *name, int flags)
{
    int fd = -1;
    DID(pxfs_openat(dir, name, flags, 0644, &fd, NULL, NULL));
    CHECK(fd >= 0);
    return fd;
}

static void opening(void)
{
    struct stat st;
    int fd = -1;
    DID(pxfs_creat("made", 0640, &fd, NULL, NULL));
    CHECK(fcntl(fd, F_GETFL) >= 0 && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY);
    CHECK(fstat(fd, &st) == 0 && (st.st_mode & 07777) == 0640 && write(fd, "abc", 3) == 3);
    DID(pxfs_close(fd, NULL, NULL));
    CHECK(fcntl(fd, F_GETFL) == -1);
    /* It may be there, and is emptied: POSIX, not the original. */
    DID(pxfs_creat64("made", 0600, &fd, NULL, NULL));
    CHECK(fstat(fd, &st) == 0 && st.st_size == 0 && (st.st_mode & 07777) == 0640);
    DID(pxfs_close(fd, NULL, NULL));
    DID(pxfs_open("made2", O_RDWR | O_CREAT | O_EXCL, &fd, NULL, NULL, 0604));
    CHECK(fstat(fd, &st) == 0 && (st.st_mode & 07777) == 0604);
    DID(pxfs_close(fd, NULL, NULL));
    DID(pxfs_open64("made2", O_RDONLY, &fd, NULL, NULL));
    DID(pxfs_close(fd, NULL, NULL));
    CHECK(ended(pxfs_open("made2", O_RDWR | O_CREAT | O_EXCL, &fd, NULL, NULL, 0600)) == EEXIST);
    DID(pxfs_openat64(dir, "made2", O_RDONLY, 0, &fd, NULL, NULL));
    DID(pxfs_close(fd, NULL, NULL));
}

static void transfer(void)
{
    int fd = opened("data", O_RDWR | O_CREAT);
    struct iovec parts[2] = {{(char[]){"0123"}, 4}, {(char[]){"456789"}, 6}}, into[2] = {{buf, 3}, {buf + 3, 7}};
    off_t at;
    int64_t at64;
    DID(pxfs_writev(fd, parts, 2, &n, NULL, NULL));
    CHECK(n == 10);
    DID(pxfs_write(fd, "ab", 2, &n, NULL, NULL));
    DID(pxfs_pwrite(fd, "X", 1, 1, &n, NULL, NULL));
    DID(pxfs_pwrite64(fd, "Y", 1, 2, &n, NULL, NULL));
    CHECK(pread(fd, buf, sizeof buf, 0) == 12 && memcmp(buf, "0XY3456789ab", 12) == 0);
    DID(pxfs_pwritev(fd, parts, 2, 2, &n, NULL, NULL));
    DID(pxfs_pwritev64(fd, parts, 1, 0, &n, NULL, NULL));
    CHECK(n == 4 && pread(fd, buf, sizeof buf, 0) == 12 && memcmp(buf, "012323456789", 12) == 0);
    DID(pxfs_pread(fd, buf, 4, 8, &n, NULL, NULL));
    CHECK(n == 4 && memcmp(buf, "6789", 4) == 0);
    DID(pxfs_pread64(fd, buf, 100, 10, &n, NULL, NULL));
    CHECK(n == 2 && memcmp(buf, "89", 2) == 0);
    DID(pxfs_preadv(fd, into, 2, 0, &n, NULL, NULL));
    CHECK(n == 10 && memcmp(buf, "0123234567", 10) == 0);
    DID(pxfs_preadv64(fd, into, 2, 2, &n, NULL, NULL));
    CHECK(n == 10 && memcmp(buf, "2323456789", 10) == 0);
    DID(pxfs_lseek(fd, 4, SEEK_SET, &at, NULL, NULL));
    DID(pxfs_readv(fd, into, 2, &n, NULL, NULL));
    CHECK(at == 4 && n == 8 && memcmp(buf, "23456789", 8) == 0);
    DID(pxfs_lseek64(fd, -1, SEEK_CUR, &at64, NULL, NULL));
    DID(pxfs_read(fd, buf, 9, &n, NULL, NULL));
    CHECK(at64 == 11 && n == 1 && buf[0] == '9');
    DID(pxfs_close(fd, NULL, NULL));
}

static void sizes(void)
{
    struct stat st;
    int fd = opened("size", O_RDWR | O_CREAT), to = opened("copy", O_RDWR | O_CREAT);
    int64_t from_at = 2, to_at = 0;
    DID(pxfs_ftruncate(fd, 1000, NULL, NULL));
    CHECK(fstat(fd, &st) == 0 && st.st_size == 1000);
    DID(pxfs_ftruncate64(fd, (int64_t)5 << 30, NULL, NULL));
    CHECK(fstat(fd, &st) == 0 && st.st_size == (off_t)5 << 30);
    DID(pxfs_truncate("size", 10, NULL, NULL));
    CHECK(fstat(fd, &st) == 0 && st.st_size == 10);
    DID(pxfs_truncate64("size", 20, NULL, NULL));
    CHECK(fstat(fd, &st) == 0 && st.st_size == 20);
    CHECK(ended(pxfs_truncate("is-not-there", 20, NULL, NULL)) == ENOENT);
    CHECK(mkfifo("pipe", 0600) == 0 && truncate("pipe", 20) == -1 && errno == EINVAL);
    CHECK(ended(pxfs_truncate("pipe", 20, NULL, NULL)) == EINVAL);
    /* The original made this file shorter. */
    DID(pxfs_fallocate(fd, 0, 5, NULL, NULL));
    CHECK(fstat(fd, &st) == 0 && st.st_size == 20);
    DID(pxfs_fallocate64(fd, 4000, 96, NULL, NULL));
    CHECK(fstat(fd, &st) == 0 && st.st_size == 4096);
    DID(pxfs_fsync(fd, NULL, NULL));
    DID(pxfs_fdatasync(fd, NULL, NULL));
    DID(pxfs_sync_file_range(fd, 0, 4096, SYNC_FILE_RANGE_WRITE, NULL, NULL));
    DID(pxfs_fadvise(fd, 0, 4096, POSIX_FADV_SEQUENTIAL, NULL, NULL));
    DID(pxfs_fadvise64(fd, 0, 0, POSIX_FADV_DONTNEED, NULL, NULL));
    CHECK(pwrite(fd, "0123456789", 10, 0) == 10);
    DID(pxfs_copy_file_range(fd, &from_at, to, &to_at, 5, 0, &n, NULL, NULL));
    CHECK(n == 5 && from_at == 7 && to_at == 5 && pread(to, buf, 9, 0) == 5 && memcmp(buf, "23456", 5) == 0);
    CHECK(close(fd) == 0 && close(to) == 0);
}

/* Modes of fallocate: reserved room beyond the end, zeros, a hole, room in the middle. Not each file system knows each. */
static void allocated(void)
{
    struct stat st;
    int fd = opened("room", O_RDWR | O_CREAT), hole;
    CHECK(pwrite(fd, "0123456789", 10, 0) == 10);
    DID(pxfs_fallocate_mode(fd, 0, 10, 10, NULL, NULL));
    CHECK(fstat(fd, &st) == 0 && st.st_size == 20);
    DID(pxfs_fallocate_mode64(fd, FALLOC_FL_KEEP_SIZE, 1 << 20, 4096, NULL, NULL));
    CHECK(fstat(fd, &st) == 0 && st.st_size == 20 && st.st_blocks >= 8);
    hole = ended(pxfs_fallocate_mode(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 2, 3, NULL, NULL));
    CHECK(hole == 0 || hole == EOPNOTSUPP);
    CHECK(fstat(fd, &st) == 0 && st.st_size == 20 && pread(fd, buf, 10, 0) == 10);
    CHECK(memcmp(buf, hole == 0 ? "01\0\0\0" "56789" : "0123456789", 10) == 0);
    CHECK(ended(pxfs_fallocate_mode(fd, FALLOC_FL_PUNCH_HOLE, 0, 1, NULL, NULL)) == EOPNOTSUPP);
    CHECK(pxfs_fallocate_mode(fd, FALLOC_FL_COLLAPSE_RANGE, 0, 4096, NULL, NULL) == -1 && errno == EOPNOTSUPP);
    CHECK(fstat(fd, &st) == 0 && st.st_size == 20 && close(fd) == 0);
}

static void status(void)
{
    struct stat mine, theirs;
    struct stat64 mine64, theirs64;
    struct statx x;
    struct statfs fs, other;
    struct statfs64 fs64;
    int fd = opened("data", O_RDONLY);
    CHECK(symlink("data", "to-data") == 0);
    DID(pxfs_stat("to-data", &mine, NULL, NULL));
    CHECK(stat("data", &theirs) == 0);
    same(&mine, &theirs);
    memset(&mine, 0xff, sizeof mine);
    DID(pxfs_fstat(fd, &mine, NULL, NULL));
    same(&mine, &theirs);
    DID(pxfs_fstatat(dir, "data", &mine, 0, NULL, NULL));
    same(&mine, &theirs);
    DID(pxfs_fstatat(fd, "", &mine, AT_EMPTY_PATH, NULL, NULL));
    same(&mine, &theirs);
    DID(pxfs_lstat("to-data", &mine, NULL, NULL));
    CHECK(lstat("to-data", &theirs) == 0);
    same(&mine, &theirs);
    DID(pxfs_stat("/dev/null", &mine, NULL, NULL));
    CHECK(stat("/dev/null", &theirs) == 0);
    same(&mine, &theirs);
    /* The 64-bit structure is another type with the same members. */
    CHECK(sizeof mine64 == sizeof mine && stat64("data", &theirs64) == 0);
    DID(pxfs_stat64("data", &mine64, NULL, NULL));
    CHECK(mine64.st_ino == theirs64.st_ino && mine64.st_size == theirs64.st_size);
    DID(pxfs_fstat64(fd, &mine64, NULL, NULL));
    CHECK(mine64.st_ino == theirs64.st_ino && mine64.st_mtim.tv_nsec == theirs64.st_mtim.tv_nsec);
    DID(pxfs_fstatat64(dir, "data", &mine64, 0, NULL, NULL));
    CHECK(mine64.st_ino == theirs64.st_ino);
    DID(pxfs_lstat64("to-data", &mine64, NULL, NULL));
    CHECK(S_ISLNK(mine64.st_mode));
    DID(pxfs_statx(dir, "data", 0, STATX_SIZE, &x, NULL, NULL));
    CHECK((x.stx_mask & STATX_SIZE) != 0 && x.stx_size == (uint64_t)theirs64.st_size);
    CHECK(statfs(".", &other) == 0);
    DID(pxfs_statfs(".", &fs, NULL, NULL));
    CHECK(fs.f_type == other.f_type && fs.f_bsize == other.f_bsize && fs.f_blocks == other.f_blocks);
    DID(pxfs_fstatfs(fd, &fs, NULL, NULL));
    CHECK(fs.f_type == other.f_type && fs.f_namelen == other.f_namelen);
    DID(pxfs_statfs64(".", &fs64, NULL, NULL));
    CHECK(fs64.f_type == other.f_type && fs64.f_blocks == other.f_blocks);
    DID(pxfs_fstatfs64(fd, &fs64, NULL, NULL));
    CHECK(fs64.f_type == other.f_type);
    DID(pxfs_access("data", R_OK | W_OK, NULL, NULL));
    CHECK(ended(pxfs_access("is-not-there", F_OK, NULL, NULL)) == ENOENT);
    DID(pxfs_faccessat(dir, "data", F_OK, AT_EACCESS, NULL, NULL));
    CHECK(close(fd) == 0);
}

static void attributes(void)
{
    struct stat st;
    struct timespec times[2] = {{1000000000, 5}, {1100000000, 999999999}};
    int fd = opened("data", O_RDONLY);
    uid_t me = getuid();
    gid_t mine = getgid();
    DID(pxfs_chmod("data", 0601, NULL, NULL));
    CHECK(fstat(fd, &st) == 0 && (st.st_mode & 07777) == 0601);
    DID(pxfs_fchmod(fd, 0602, NULL, NULL));
    CHECK(fstat(fd, &st) == 0 && (st.st_mode & 07777) == 0602);
    DID(pxfs_fchmodat(dir, "data", 0604, 0, NULL, NULL));
    CHECK(fstat(fd, &st) == 0 && (st.st_mode & 07777) == 0604);
    DID(pxfs_chown("data", me == 0 ? 12 : me, mine, NULL, NULL));
    CHECK(fstat(fd, &st) == 0 && st.st_uid == (me == 0 ? 12 : me));
    DID(pxfs_fchown(fd, (uid_t)-1, me == 0 ? 34 : mine, NULL, NULL));
    CHECK(fstat(fd, &st) == 0 && st.st_uid == (me == 0 ? 12 : me) && st.st_gid == (me == 0 ? 34 : mine));
    DID(pxfs_lchown("to-data", me == 0 ? 56 : me, mine, NULL, NULL));
    CHECK(lstat("to-data", &st) == 0 && st.st_uid == (me == 0 ? 56 : me));
    DID(pxfs_fchownat(dir, "data", me, mine, 0, NULL, NULL));
    CHECK(fstat(fd, &st) == 0 && st.st_uid == me && st.st_gid == mine);
    DID(pxfs_utimensat(dir, "data", times, 0, NULL, NULL));
    CHECK(fstat(fd, &st) == 0);
    same_time(st.st_atim, times[0]);
    same_time(st.st_mtim, times[1]);
    times[1].tv_sec = 7;
    DID(pxfs_futimens(fd, times, NULL, NULL));
    CHECK(fstat(fd, &st) == 0 && st.st_mtim.tv_sec == 7);
    DID(pxfs_futimens(fd, NULL, NULL, NULL));
    CHECK(fstat(fd, &st) == 0 && st.st_mtim.tv_sec > 1100000000);
    CHECK(close(fd) == 0);
}

static void names(void)
{
    struct stat st, other;
    DID(pxfs_mkdir("d", 0750, NULL, NULL));
    CHECK(stat("d", &st) == 0 && S_ISDIR(st.st_mode) && (st.st_mode & 07777) == 0750);
    DID(pxfs_mkdirat(dir, "d/e", 0700, NULL, NULL));
    DID(pxfs_symlink("data", "d/l", NULL, NULL));
    DID(pxfs_symlinkat("../data", dir, "d/m", NULL, NULL));
    DID(pxfs_readlink("d/m", buf, sizeof buf, &n, NULL, NULL));
    CHECK(n == 7 && memcmp(buf, "../data", 7) == 0);
    DID(pxfs_readlinkat(dir, "d/m", buf, 3, &n, NULL, NULL));
    CHECK(n == 3 && memcmp(buf, "../", 3) == 0);
    DID(pxfs_link("data", "d/h", NULL, NULL));
    DID(pxfs_linkat(dir, "d/m", dir, "d/i", AT_SYMLINK_FOLLOW, NULL, NULL));
    CHECK(stat("data", &st) == 0 && stat("d/i", &other) == 0 && st.st_ino == other.st_ino && st.st_nlink == 3);
    DID(pxfs_rename("d/h", "d/r", NULL, NULL));
    DID(pxfs_renameat(dir, "d/r", dir, "d/s", NULL, NULL));
    CHECK(ended(pxfs_renameat2(dir, "d/s", dir, "d/i", RENAME_NOREPLACE, NULL, NULL)) == EEXIST);
    DID(pxfs_renameat2(dir, "d/s", dir, "d/t", RENAME_NOREPLACE, NULL, NULL));
    DID(pxfs_unlink("d/t", NULL, NULL));
    DID(pxfs_unlinkat(dir, "d/i", 0, NULL, NULL));
    DID(pxfs_unlinkat(dir, "d/e", AT_REMOVEDIR, NULL, NULL));
    CHECK(ended(pxfs_rmdir("d", NULL, NULL)) == ENOTEMPTY);
    DID(pxfs_unlink("d/l", NULL, NULL));
    DID(pxfs_unlink("d/m", NULL, NULL));
    DID(pxfs_rmdir("d", NULL, NULL));
    CHECK(stat("d", &st) == -1 && stat("data", &st) == 0 && st.st_nlink == 1);
}

static void extended(void)
{
    int fd = opened("data", O_RDWR);
    if (setxattr("data", "user.test", "1", 1, 0) == -1 && errno == EOPNOTSUPP) {
        puts("note: no extended attributes here");
        CHECK(close(fd) == 0);
        return;
    }
    DID(pxfs_setxattr("data", "user.a", "one", 3, XATTR_CREATE, NULL, NULL));
    CHECK(ended(pxfs_setxattr("data", "user.a", "one", 3, XATTR_CREATE, NULL, NULL)) == EEXIST);
    DID(pxfs_fsetxattr(fd, "user.b", "two", 3, 0, NULL, NULL));
    DID(pxfs_lsetxattr("data", "user.c", "", 0, 0, NULL, NULL));
    DID(pxfs_getxattr("to-data", "user.a", buf, sizeof buf, &n, NULL, NULL));
    CHECK(n == 3 && memcmp(buf, "one", 3) == 0);
    DID(pxfs_getxattr("data", "user.a", NULL, 0, &n, NULL, NULL));
    CHECK(n == 3);
    CHECK(ended(pxfs_getxattr("data", "user.a", buf, 1, &n, NULL, NULL)) == ERANGE);
    DID(pxfs_fgetxattr(fd, "user.b", buf, sizeof buf, &n, NULL, NULL));
    CHECK(n == 3 && memcmp(buf, "two", 3) == 0);
    DID(pxfs_lgetxattr("data", "user.c", buf, sizeof buf, &n, NULL, NULL));
    CHECK(n == 0);
    CHECK(ended(pxfs_lgetxattr("to-data", "user.a", buf, sizeof buf, &n, NULL, NULL)) != 0);
    DID(pxfs_listxattr("data", buf, sizeof buf, &n, NULL, NULL));
    CHECK(n >= 28 && memmem(buf, (size_t)n, "user.b", 7) != NULL);
    DID(pxfs_llistxattr("to-data", buf, sizeof buf, &n, NULL, NULL));
    CHECK(memmem(buf, (size_t)n, "user.b", 7) == NULL);
    DID(pxfs_flistxattr(fd, NULL, 0, &n, NULL, NULL));
    CHECK(n >= 28);
    DID(pxfs_removexattr("data", "user.a", NULL, NULL));
    DID(pxfs_fremovexattr(fd, "user.b", NULL, NULL));
    DID(pxfs_lremovexattr("data", "user.c", NULL, NULL));
    CHECK(ended(pxfs_getxattr("data", "user.a", buf, sizeof buf, &n, NULL, NULL)) == ENODATA);
    CHECK(close(fd) == 0);
}

/* A directory of more entries than one batch has room for. */
static void directory(void)
{
    enum { FILES = 300 };
    static char seen[FILES];
    int fd = -1, others = 0, files = 0, batches = 0, number;
    char name[32];
    CHECK(mkdir("many", 0700) == 0);
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "many/%d", i);
        CHECK(close(open(name, O_WRONLY | O_CREAT, 0600)) == 0);
    }
    fd = opened("many", O_RDONLY | O_DIRECTORY);
    for (;;) {
        DID(pxfs_getdents(fd, buf, sizeof buf, &n, NULL, NULL));
        if (n == 0)
            break;
        batches++;
        for (ssize_t at = 0; at < n;) {
            struct pxfs_dirent *entry = (struct pxfs_dirent *)(void *)(buf + at);
            if (entry->name[0] == '.') {
                others++;
            } else {
                CHECK(sscanf(entry->name, "%d", &number) == 1 && number >= 0 && number < FILES);
                CHECK(!seen[number] && (entry->type == DT_REG || entry->type == DT_UNKNOWN) && entry->ino != 0);
                seen[number] = 1;
                files++;
            }
            at += entry->reclen;
        }
    }
    CHECK(files == FILES && others == 2 && batches > 1);
    DID(pxfs_close(fd, NULL, NULL));
}

int main(int argc, char **argv)
{
    CHECK(argc == 2 && chdir(argv[1]) == 0);
    umask(0);
    dir = open(".", O_RDONLY | O_DIRECTORY);
    CHECK(dir >= 0);
    opening();
    transfer();
    sizes();
    allocated();
    status();
    attributes();
    names();
    extended();
    directory();
    CHECK(close(dir) == 0);
    CHECK(atta_shutdown(ATTA_DRAIN, -1) == 0);
    return 0;
}
