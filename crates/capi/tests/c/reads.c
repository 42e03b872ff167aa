/* Positions of the library: operations on one descriptor never get the same bytes, and go in order. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "check.h"

enum { THREADS = 4, READS = 250, BYTES = 8, TOTAL = THREADS * READS };

static int file;
static unsigned long long buffers[THREADS][READS];
static ssize_t counts[THREADS][READS];

static void *reader(void *which)
{
    int me = *(int *)which;
    for (int i = 0; i < READS; i++)
        CHECK(pxfs_read(file, &buffers[me][i], BYTES, &counts[me][i], NULL, NULL) == 0);
    return NULL;
}

static void read_by_threads(const char *path)
{
    static char seen[TOTAL];
    unsigned long long number;
    pthread_t threads[THREADS];
    int names[THREADS];
    file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0);
    for (number = 0; number < TOTAL; number++)
        CHECK(write(file, &number, BYTES) == BYTES);
    CHECK(lseek(file, 0, SEEK_SET) == 0);
    for (int i = 0; i < THREADS; i++) {
        names[i] = i;
        CHECK(pthread_create(&threads[i], NULL, reader, &names[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(atta_wait_all(-1) == 0);
    for (int i = 0; i < THREADS; i++) {
        for (int j = 0; j < READS; j++) {
            CHECK(counts[i][j] == BYTES && buffers[i][j] < TOTAL && !seen[buffers[i][j]]);
            /* A thread's own reads are in the order in which it submitted them. */
            CHECK(j == 0 || buffers[i][j] > buffers[i][j - 1]);
            seen[buffers[i][j]] = 1;
        }
    }
    /* At the end of the file. */
    CHECK(ended(pxfs_read(file, &number, BYTES, &counts[0][0], NULL, NULL)) == 0 && counts[0][0] == 0);
}

static void seek(void)
{
    off_t at = -1;
    ssize_t n = -1;
    unsigned long long number = 0;
    struct iovec halves[2] = {{&number, 4}, {(char *)&number + 4, 4}};
    CHECK(ended(pxfs_lseek(file, 0, SEEK_CUR, &at, NULL, NULL)) == 0 && at == TOTAL * BYTES);
    CHECK(ended(pxfs_lseek(file, 80, SEEK_SET, &at, NULL, NULL)) == 0 && at == 80);
    CHECK(ended(pxfs_lseek(file, -8, SEEK_CUR, &at, NULL, NULL)) == 0 && at == 72);
    CHECK(ended(pxfs_readv(file, halves, 2, &n, NULL, NULL)) == 0 && n == 8 && number == 9);
    CHECK(ended(pxfs_lseek(file, -8, SEEK_END, &at, NULL, NULL)) == 0 && at == (TOTAL - 1) * BYTES);
    CHECK(ended(pxfs_read(file, &number, 8, &n, NULL, NULL)) == 0 && n == 8 && number == TOTAL - 1);
    CHECK(ended(pxfs_lseek(file, -1, SEEK_SET, &at, NULL, NULL)) == EINVAL);
    CHECK(ended(pxfs_lseek(file, 0, 77, &at, NULL, NULL)) == EINVAL);
    CHECK(ended(pxfs_close(file, NULL, NULL)) == 0);
    CHECK(ended(pxfs_read(file, &number, 8, &n, NULL, NULL)) == EBADF);
}

/* A number that is used again begins at the beginning. */
static void reopen(const char *path)
{
    unsigned long long number = 1;
    ssize_t n;
    int fd = -1, again = -1;
    CHECK(ended(pxfs_open(path, O_RDONLY, &fd, NULL, NULL)) == 0);
    CHECK(ended(pxfs_read(fd, &number, 8, &n, NULL, NULL)) == 0 && number == 0);
    close(fd); /* behind the library's back */
    CHECK(ended(pxfs_open(path, O_RDONLY, &again, NULL, NULL)) == 0 && again == fd);
    number = 1;
    CHECK(ended(pxfs_read(again, &number, 8, &n, NULL, NULL)) == 0 && number == 0);
    CHECK(ended(pxfs_close(again, NULL, NULL)) == 0);
}

/* Writes for appending keep their order, and the position is behind them. */
static void append(const char *path)
{
    enum { LINES = 200 };
    static char lines[LINES], found[LINES + 4];
    static ssize_t n[LINES];
    off_t at = -1;
    int fd = -1;
    CHECK(ended(pxfs_open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, &fd, NULL, NULL, 0600)) == 0);
    CHECK(pwrite(fd, "head", 4, 0) == 4);
    for (int i = 0; i < LINES; i++) {
        lines[i] = (char)('!' + i % 90);
        CHECK(pxfs_write(fd, &lines[i], 1, &n[i], NULL, NULL) == 0);
    }
    CHECK(ended(pxfs_lseek(fd, 0, SEEK_CUR, &at, NULL, NULL)) == 0 && at == LINES + 4);
    CHECK(pread(fd, found, sizeof found, 0) == LINES + 4);
    CHECK(memcmp(found, "head", 4) == 0 && memcmp(found + 4, lines, LINES) == 0);
    CHECK(ended(pxfs_close(fd, NULL, NULL)) == 0);
}

/* A pipe is nowhere, and is read as it comes. */
static void read_pipe(void)
{
    int ends[2];
    char byte = 0;
    ssize_t n = 0;
    off_t at = 7;
    CHECK(pipe(ends) == 0);
    CHECK(ended(pxfs_write(ends[1], "ab", 2, &n, NULL, NULL)) == 0 && n == 2);
    CHECK(ended(pxfs_read(ends[0], &byte, 1, &n, NULL, NULL)) == 0 && n == 1 && byte == 'a');
    CHECK(ended(pxfs_read(ends[0], &byte, 1, &n, NULL, NULL)) == 0 && n == 1 && byte == 'b');
    CHECK(ended(pxfs_lseek(ends[0], 0, SEEK_CUR, &at, NULL, NULL)) == ESPIPE && at == 7);
    CHECK(ended(pxfs_close(ends[0], NULL, NULL)) == 0 && ended(pxfs_close(ends[1], NULL, NULL)) == 0);
}

int main(int argc, char **argv)
{
    char path[4096];
    CHECK(argc == 2);
    snprintf(path, sizeof path, "%s/numbers", argv[1]);
    read_by_threads(path);
    seek();
    reopen(path);
    snprintf(path, sizeof path, "%s/lines", argv[1]);
    append(path);
    read_pipe();
    CHECK(atta_shutdown(ATTA_DRAIN, -1) == 0);
    return 0;
}
