/* Ranks that are forked processes, connected by the pipes of the example: all queries, and ranks that die. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/wait.h>

#include "../../examples/pipes.h"
#include "ranks.h"

static const char *directory;

static atta_status joined(struct pipes_rank *own)
{
    struct atta_collective collective = pipes_collective(own);
    atta_mounts mounts = mounts_of(own->rank);
    atta_status status = 0;
    pipes_keep(own);
    CHECK(atta_status_join(mounts, &collective, NULL, &status) == 0 && atta_free(mounts) == 0);
    return status;
}

static void all_queries(struct pipes_rank *own)
{
    atta_status status = joined(own);
    check_queries(status, own->rank, own->pipes->ranks);
    check_contents(status, own->rank, own->pipes->ranks, directory);
    check_saved(status, own->rank, directory);
    CHECK(atta_free(status) == 0);
}

/* The others get an error, and do not wait for ever. */
static void rank_dies(struct pipes_rank *own, uint32_t dead)
{
    atta_status status = joined(own);
    int answer = -1;
    if (own->rank == dead)
        raise(SIGKILL);
    CHECK(atta_status_ask(status, ATTA_IS_UNIQUE, "/home/f", &answer) == -1 && answer == -1);
    CHECK(errno == ECONNRESET || errno == EPIPE);
    CHECK(atta_free(status) == 0);
}

static void leaf_dies(struct pipes_rank *own)
{
    rank_dies(own, 3);
}

static void inner_rank_dies(struct pipes_rank *own)
{
    rank_dies(own, 2);
}

static void first_rank_dies(struct pipes_rank *own)
{
    rank_dies(own, 0);
}

/* Runs so many ranks, of which all but the dead one end well. */
static void run(uint32_t ranks, int dead, void (*what)(struct pipes_rank *own))
{
    struct pipes pipes;
    pid_t children[16];
    CHECK(ranks <= 16 && pipes_open(&pipes, ranks) == 0);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        children[rank] = fork();
        CHECK(children[rank] >= 0);
        if (children[rank] == 0) {
            struct pipes_rank own = {&pipes, rank};
            what(&own);
            free(pipes.ends);
            exit(0);
        }
    }
    pipes_close(&pipes);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        int state = 0;
        CHECK(waitpid(children[rank], &state, 0) == children[rank]);
        CHECK((int)rank == dead ? WIFSIGNALED(state) : WIFEXITED(state) && WEXITSTATUS(state) == 0);
    }
}

int main(int count, char **arguments)
{
    CHECK(count == 2);
    directory = arguments[1];
    signal(SIGPIPE, SIG_IGN);
    run(5, -1, all_queries);
    run(8, -1, all_queries);
    run(6, 3, leaf_dies);
    run(6, 2, inner_rank_dies);
    run(6, 0, first_rank_dies);
    return 0;
}
