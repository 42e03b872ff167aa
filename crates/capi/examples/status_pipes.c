/* status_pipes.c: forked processes ask who sees the same file. An example of atta_status.h without MPI.
 *
 *     cc status_pipes.c $(pkg-config --cflags --libs atta) && ./a.out 4 /etc/hostname
 *
 * Rank 0 prints one line. The exit code is that of the worst rank: 0, or 1 after an error. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "pipes.h"

static const char *const answers[] = {"no", "yes", "unknown"};

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    return 1;
}

static int asked(atta_status status, uint32_t rank, const char *path)
{
    int unique, consistent;
    atta_distribution distribution;
    struct atta_descriptor own = {.size = sizeof own};
    if (atta_status_ask(status, ATTA_IS_UNIQUE, path, &unique) != 0 ||
        atta_status_ask(status, ATTA_IS_CONSISTENT, path, &consistent) != 0 ||
        atta_status_distribution(status, path, &distribution) != 0 ||
        atta_distribution_descriptor(distribution, &own) != 0)
        return failed(path);
    if (rank == 0)
        printf("%s: unique %s, consistent %s, groups %u, ranks of this group %u\n", path, answers[unique],
               answers[consistent], own.groups, own.ranks);
    return atta_free(distribution);
}

static int run(struct pipes_rank *own, const char *path)
{
    struct atta_collective ranks = pipes_collective(own);
    atta_mounts mounts;
    atta_status status;
    pipes_keep(own);
    if (atta_mounts_read(&mounts) != 0)
        return failed("the mount table");
    if (atta_status_join(mounts, &ranks, NULL, &status) != 0)
        return failed("the other ranks");
    int code = asked(status, own->rank, path);
    atta_free(status);
    atta_free(mounts);
    return code;
}

int main(int count, char **arguments)
{
    uint32_t ranks = count == 3 ? (uint32_t)atoi(arguments[1]) : 0;
    struct pipes pipes;
    int code = 0;
    if (ranks == 0) {
        fprintf(stderr, "usage: %s RANKS PATH\n", arguments[0]);
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    if ((errno = pipes_open(&pipes, ranks)) != 0)
        return failed("pipes");
    for (uint32_t rank = 0; rank < ranks; rank++) {
        pid_t child = fork();
        if (child < 0)
            return failed("fork");
        if (child == 0) {
            struct pipes_rank own = {&pipes, rank};
            code = run(&own, arguments[2]);
            free(pipes.ends);
            return code;
        }
    }
    pipes_close(&pipes);
    for (int state; wait(&state) > 0;)
        if (!WIFEXITED(state) || WEXITSTATUS(state) != 0)
            code = 1;
    return code;
}
