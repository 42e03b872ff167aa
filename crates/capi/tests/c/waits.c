/* Waiting, cancelling, deadlines, options, counters, shutdown. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "check.h"

/* What a thread of the library waits in cannot be interrupted: then a read of an empty pipe is left out. */
static int on_threads;
static int empty[2];
static char byte;
static ssize_t n;

static int called, last_status;
static int note(void *cdat, int status)
{
    (void)cdat;
    last_status = status;
    __atomic_add_fetch(&called, 1, __ATOMIC_SEQ_CST);
    return 0;
}

/* A continuation must not wait for itself, and may submit. */
static int depth;
static struct stat status_of_root;
static int nest(void *cdat, int status)
{
    CHECK(status == 0);
    CHECK(atta_wait_all(0) == -1 && errno == EDEADLK);
    CHECK(atta_shutdown(ATTA_DRAIN, 0) == -1 && errno == EDEADLK);
    if (__atomic_add_fetch(&depth, 1, __ATOMIC_SEQ_CST) < 100)
        CHECK(pxfs_stat("/", &status_of_root, nest, cdat) == 0);
    /* One without a continuation may be waited for here. */
    struct stat found;
    CHECK(ended(pxfs_stat("/", &found, NULL, NULL)) == 0);
    return 0;
}

static void options(void)
{
    struct {
        struct atta_options known;
        uint64_t more;
    } newer = {.known = {.size = sizeof newer}};
    struct atta_options bad = {.size = sizeof bad, .backend = 77};
    struct atta_counts counts = {.size = sizeof counts, .submitted = 5};
    CHECK(atta_counts(&counts) == 0 && counts.submitted == 0);
    CHECK(atta_init(&bad) == -1 && errno == EINVAL);
    bad = (struct atta_options){.size = sizeof bad, .flags = 1u << 30};
    CHECK(atta_init(&bad) == -1 && errno == EINVAL);
    bad = (struct atta_options){.size = 8};
    CHECK(atta_init(&bad) == -1 && errno == EINVAL);
    bad = (struct atta_options){.size = SIZE_MAX};
    CHECK(atta_init(&bad) == -1 && errno == E2BIG);
    newer.more = 1;
    CHECK(atta_init(&newer.known) == -1 && errno == E2BIG);
    newer.more = 0;
    newer.known.grace_ms = 50;
    newer.known.continuation_threads = 3;
    CHECK(atta_init(&newer.known) == 0);
    CHECK(atta_init(NULL) == -1 && errno == EALREADY);
}

static void waiting(void)
{
    int status = 5;
    struct stat found;
    CHECK(pxfs_stat("/", &found, note, NULL) == 0);
    atta_op op = atta_last();
    CHECK(op != 0 && op == atta_last());
    CHECK(atta_wait(op, -1, &status) == 0 && status == 0);
    /* The continuation has returned by then, and op is given back. */
    CHECK(called == 1 && last_status == 0);
    CHECK(atta_wait(op, -1, &status) == -1 && errno == EINVAL);
    CHECK(atta_cancel(op) == -1 && errno == EINVAL && atta_release(op) == -1 && errno == EINVAL);
    CHECK(atta_wait(0, -1, NULL) == -1 && errno == EINVAL);
    CHECK(ended(pxfs_stat("/is/not/there", &found, note, NULL)) == ENOENT && last_status == ENOENT);
    /* What was refused is not the last operation. */
    CHECK(pxfs_stat(NULL, &found, note, NULL) == -1 && errno == EFAULT && atta_last() == 0);
    CHECK(pxfs_stat("/", &found, nest, NULL) == 0);
    CHECK(atta_wait_all(-1) == 0 && depth == 100);
}

static void cancelling(void)
{
    int status = 0;
    if (on_threads)
        return;
    CHECK(pxfs_read(empty[0], &byte, 1, &n, note, NULL) == 0);
    atta_op op = atta_last();
    CHECK(atta_wait(op, 20, &status) == -1 && errno == ETIMEDOUT);
    CHECK(atta_wait_all(20) == -1 && errno == ETIMEDOUT);
    CHECK(atta_cancel(op) == 0);
    CHECK(atta_wait(op, -1, &status) == 0 && status == ECANCELED && last_status == ECANCELED);
    /* A deadline of this thread. */
    CHECK(atta_deadline(20) == 0);
    CHECK(ended(pxfs_read(empty[0], &byte, 1, &n, note, NULL)) == ETIMEDOUT);
    CHECK(atta_deadline(-1) == 0);
}

/* Any number of operations, cancelled at any time: each ends once. */
static void storm(void)
{
    enum { MANY = 2000 };
    static struct stat found[MANY];
    int before = called, others = 0;
    for (int i = 0; i < MANY; i++) {
        int status = -1;
        CHECK(pxfs_stat("/", &found[i], note, NULL) == 0);
        if (i % 3 == 0) {
            atta_op op = atta_last();
            CHECK(atta_cancel(op) == 0);
            if (i % 2 == 0) {
                CHECK(atta_wait(op, -1, &status) == 0 && (status == 0 || status == ECANCELED));
                others += status != 0;
            } else {
                CHECK(atta_release(op) == 0);
            }
        }
    }
    CHECK(atta_wait_all(-1) == 0 && called == before + MANY && others <= MANY);
}

static int descriptors(void)
{
    int open = 0;
    for (int fd = 0; fd < 1024; fd++)
        open += fcntl(fd, F_GETFD) != -1;
    return open;
}

/* An operation of several steps leaves nothing behind, wherever it is cancelled. */
static void storm_of_steps(const char *directory)
{
    enum { MANY = 1000 };
    char path[4096];
    int fd = -1, status, before;
    snprintf(path, sizeof path, "%s/truncated", directory);
    CHECK(ended(pxfs_creat(path, 0600, &fd, NULL, NULL)) == 0 && ended(pxfs_close(fd, NULL, NULL)) == 0);
    before = descriptors();
    for (int i = 0; i < MANY; i++) {
        CHECK(pxfs_truncate(path, i, NULL, NULL) == 0);
        atta_op op = atta_last();
        for (volatile int turn = 0; turn < i * 10; turn++) {
        }
        CHECK(atta_cancel(op) == 0 && atta_wait(op, -1, &status) == 0);
        CHECK(status == 0 || status == ECANCELED);
    }
    CHECK(descriptors() == before);
}

static void counting(void)
{
    struct atta_counts counts = {.size = sizeof counts};
    struct { size_t size; uint64_t submitted, guard; } older = {16, 0, 77};
    CHECK(atta_counts(&counts) == 0 && counts.size == sizeof counts);
    CHECK(counts.submitted > 2000 && counts.pending == 0);
    CHECK(atta_counts((struct atta_counts *)(void *)&older) == 0);
    CHECK(older.submitted == counts.submitted && older.guard == 77);
}

static void texts(void)
{
    char text[100], small[4];
    CHECK(strstr(atta_error(ENOENT, text, sizeof text), "ENOENT") != NULL);
    CHECK(strstr(atta_error(EOWNERDEAD, text, sizeof text), "fork") != NULL);
    CHECK(strlen(atta_error(0, text, sizeof text)) > 0 && strlen(atta_error(123456, text, sizeof text)) > 0);
    CHECK(strlen(atta_error(ENOENT, small, sizeof small)) == 3);
    CHECK(*atta_error(ENOENT, NULL, 100) == 0 && *atta_error(ENOENT, text, 0) == 0);
    CHECK(atta_version()[0] >= '0' && atta_version()[0] <= '9');
}

static void limit(const char *directory)
{
    struct atta_options few = {.size = sizeof few, .pending = 2, .flags = ATTA_INLINE | ATTA_NO_SPIN};
    struct stat found;
    char bytes[3];
    ssize_t counts[3];
    char path[4096];
    off_t at = -1;
    int fd = -1;
    CHECK(atta_init(&few) == 0);
    snprintf(path, sizeof path, "%s/limit", directory);
    CHECK(ended(pxfs_creat(path, 0600, &fd, NULL, NULL)) == 0);
    CHECK(ended(pxfs_write(fd, "abc", 3, &counts[2], NULL, NULL)) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pxfs_read(empty[0], &bytes[i], 1, &counts[i], note, NULL) == 0);
    CHECK(pxfs_stat("/", &found, note, NULL) == -1 && errno == EAGAIN);
    CHECK(pxfs_close(fd, note, NULL) == -1 && errno == EAGAIN);
    CHECK(write(empty[1], "ab", 2) == 2);
    CHECK(atta_wait_all(-1) == 0 && counts[0] == 1 && counts[1] == 1);
    /* What was not closed is where it was. */
    CHECK(ended(pxfs_lseek(fd, 0, SEEK_CUR, &at, NULL, NULL)) == 0 && at == 3);
    CHECK(ended(pxfs_close(fd, NULL, NULL)) == 0);
    CHECK(ended(pxfs_stat("/", &found, note, NULL)) == 0);
    CHECK(atta_shutdown(ATTA_DRAIN, -1) == 0);
}

/* A close that is cancelled before it begins leaves the file open, and where it was. */
static void closing(const char *directory)
{
    struct atta_options one = {.size = sizeof one, .backend = ATTA_THREADS, .threads = 1};
    char path[4096];
    ssize_t count;
    off_t at = -1;
    int fd = -1, status = 0;
    CHECK(atta_init(&one) == 0);
    snprintf(path, sizeof path, "%s/closing", directory);
    CHECK(ended(pxfs_creat(path, 0600, &fd, NULL, NULL)) == 0);
    CHECK(ended(pxfs_write(fd, "abc", 3, &count, NULL, NULL)) == 0 && count == 3);
    CHECK(pxfs_read(empty[0], &byte, 1, &n, note, NULL) == 0); /* keeps the thread */
    CHECK(pxfs_close(fd, note, NULL) == 0);
    atta_op op = atta_last();
    CHECK(atta_cancel(op) == 0 && atta_wait(op, -1, &status) == 0 && status == ECANCELED);
    CHECK(write(empty[1], "z", 1) == 1 && atta_wait_all(-1) == 0);
    CHECK(fcntl(fd, F_GETFD) != -1);
    CHECK(ended(pxfs_lseek(fd, 0, SEEK_CUR, &at, NULL, NULL)) == 0 && at == 3);
    CHECK(ended(pxfs_close(fd, NULL, NULL)) == 0 && fcntl(fd, F_GETFD) == -1);
    CHECK(atta_shutdown(ATTA_DRAIN, -1) == 0);
}

static void shutting(const char *directory)
{
    struct stat found[100];
    int before = called;
    CHECK(atta_shutdown(7, 0) == -1 && errno == EINVAL);
    for (int i = 0; i < 100; i++)
        CHECK(pxfs_stat("/", &found[i], note, NULL) == 0);
    CHECK(atta_shutdown(ATTA_DRAIN, -1) == 0 && called == before + 100);
    CHECK(pxfs_stat("/", &found[0], note, NULL) == -1 && errno == ESHUTDOWN);
    CHECK(atta_shutdown(ATTA_DRAIN, -1) == 0);
    limit(directory);
    closing(directory);
    for (int how = ATTA_DRAIN; how <= ATTA_CANCEL; how++) {
        if (on_threads)
            break;
        CHECK(atta_init(NULL) == 0);
        CHECK(pxfs_read(empty[0], &byte, 1, &n, note, NULL) == 0);
        CHECK(atta_shutdown(how, 30) == -1 && errno == ETIMEDOUT && last_status == ECANCELED);
    }
    /* What a thread waits in cannot be interrupted: the shutdown ends all the same. */
    struct atta_options threads = {.size = sizeof threads, .backend = ATTA_THREADS, .grace_ms = 10};
    CHECK(atta_init(&threads) == 0);
    CHECK(pxfs_read(empty[0], &byte, 1, &n, note, NULL) == 0);
    atta_op op = atta_last();
    before = called;
    CHECK(atta_shutdown(ATTA_DRAIN, 30) == -1 && errno == EBUSY && called == before);
    CHECK(write(empty[1], "z", 1) == 1);
    CHECK(atta_wait(op, -1, NULL) == 0 && called == before + 1 && byte == 'z');
    /* It starts anew after that. */
    CHECK(atta_init(NULL) == 0);
    CHECK(ended(pxfs_stat("/", &found[0], note, NULL)) == 0);
    CHECK(atta_shutdown(ATTA_DRAIN, -1) == 0);
}

static void *first(void *start)
{
    struct stat found;
    pthread_barrier_wait(start);
    CHECK(ended(pxfs_stat("/", &found, NULL, NULL)) == 0);
    return NULL;
}

/* Many threads start the library at once, by their first operation. */
static void lazily(void)
{
    pthread_t threads[8];
    pthread_barrier_t start;
    CHECK(pthread_barrier_init(&start, NULL, 8) == 0);
    for (int i = 0; i < 8; i++)
        CHECK(pthread_create(&threads[i], NULL, first, &start) == 0);
    for (int i = 0; i < 8; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    pthread_barrier_destroy(&start);
    CHECK(atta_shutdown(ATTA_DRAIN, -1) == 0);
}

int main(int argc, char **argv)
{
    const char *backend = getenv("ATTA_AIO");
    on_threads = backend != NULL && strcmp(backend, "threads") == 0;
    CHECK(argc == 2 && argv[1] != NULL && pipe(empty) == 0);
    lazily();
    options();
    waiting();
    cancelling();
    storm();
    storm_of_steps(argv[1]);
    counting();
    texts();
    shutting(argv[1]);
    return 0;
}
