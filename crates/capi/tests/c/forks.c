/* A bare copy of a process that uses the library is told so; what it starts by exec works. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static int never(void *cdat, int status)
{
    (void)cdat;
    (void)status;
    _Exit(9);
}

#define DEAD(call) CHECK((call) == -1 && errno == EOWNERDEAD)

static void in_child(atta_op op)
{
    struct atta_counts counts = {.size = sizeof counts};
    struct stat status;
    char byte;
    ssize_t n;
    off_t at;
    int fd, ended;
    DEAD(pxfs_stat("/", &status, never, NULL));
    DEAD(pxfs_open("/", O_RDONLY, &fd, never, NULL));
    DEAD(pxfs_read(0, &byte, 1, &n, never, NULL));
    DEAD(pxfs_lseek(0, 0, SEEK_CUR, &at, never, NULL));
    DEAD(pxfs_close(0, never, NULL));
    DEAD(atta_wait(op, 100, &ended));
    DEAD(atta_wait_all(100));
    DEAD(atta_cancel(op));
    DEAD(atta_release(op));
    DEAD(atta_counts(&counts));
    DEAD(atta_init(NULL));
    DEAD(atta_shutdown(ATTA_CANCEL, 100));
    CHECK(atta_last() == 0);
}

static int code_of(pid_t child)
{
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

int main(int argc, char **argv)
{
    struct stat status;
    char byte;
    ssize_t n;
    int ends[2], code;
    pid_t child;
    CHECK(argc >= 2);
    /* A child from before the library was used may use it. */
    child = fork();
    if (child == 0) {
        CHECK(ended(pxfs_stat(argv[1], &status, NULL, NULL)) == 0);
        CHECK(atta_shutdown(ATTA_DRAIN, -1) == 0);
        exit(0);
    }
    CHECK(code_of(child) == 0);
    if (argc == 3) /* the program that was started by exec ends here */
        return ended(pxfs_stat(argv[1], &status, NULL, NULL)) == 0 ? 0 : 1;
    /* Something is under way when the process is copied. */
    CHECK(pipe(ends) == 0);
    CHECK(pxfs_read(ends[0], &byte, 1, &n, NULL, NULL) == 0);
    atta_op op = atta_last();
    CHECK(op != 0);
    child = fork();
    if (child == 0) {
        in_child(op);
        exit(0); /* with all that exit runs */
    }
    CHECK(code_of(child) == 0);
    child = fork();
    if (child == 0) {
        execl(argv[0], argv[0], argv[1], "again", (char *)NULL);
        _Exit(8);
    }
    CHECK(code_of(child) == 0);
    /* The parent goes on. */
    CHECK(write(ends[1], "x", 1) == 1);
    CHECK(atta_wait(op, -1, &code) == 0 && code == 0 && n == 1 && byte == 'x');
    CHECK(ended(pxfs_stat(argv[1], &status, NULL, NULL)) == 0);
    CHECK(atta_shutdown(ATTA_DRAIN, -1) == 0);
    return 0;
}
