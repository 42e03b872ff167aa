/* Ranks that are threads, connected by pipes: all queries by send and receive, and by a broadcast and a reduction of
 * the program's own; errors of the program's functions, and ranks that do not ask the same. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>

#include "../../examples/pipes.h"
#include "ranks.h"

enum { RANKS_MAX = 9 };

/* One rank of a run. */
struct own {
    struct pipes_rank pipes;
    const char *directory;
    void (*run)(struct own *own);
    /* The number of the receive that fails, counted down; 0: none. */
    int fails_in;
};

static void *thread(void *data)
{
    struct own *own = data;
    own->run(own);
    return NULL;
}

/* Runs ranks, and waits for all of them. */
static void run(uint32_t ranks, const char *directory, void (*what)(struct own *own))
{
    struct pipes pipes;
    struct own own[RANKS_MAX];
    pthread_t threads[RANKS_MAX];
    CHECK(pipes_open(&pipes, ranks) == 0);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        own[rank] = (struct own){{&pipes, rank}, directory, what, 0};
        CHECK(pthread_create(&threads[rank], NULL, thread, &own[rank]) == 0);
    }
    for (uint32_t rank = 0; rank < ranks; rank++)
        CHECK(pthread_join(threads[rank], NULL) == 0);
    pipes_close(&pipes);
}

static atta_status joined(const struct own *own, const struct atta_collective *collective)
{
    atta_mounts mounts = mounts_of(own->pipes.rank);
    atta_status status = 0;
    CHECK(atta_status_join(mounts, collective, NULL, &status) == 0);
    CHECK(atta_free(mounts) == 0);
    return status;
}

static void all_queries(const struct own *own, const struct atta_collective *collective)
{
    atta_status status = joined(own, collective);
    check_queries(status, own->pipes.rank, own->pipes.pipes->ranks);
    check_contents(status, own->pipes.rank, own->pipes.pipes->ranks, own->directory);
    check_saved(status, own->pipes.rank, own->directory);
    check_places(status, own->pipes.pipes->ranks);
    CHECK(atta_free(status) == 0);
}

static void by_send_and_receive(struct own *own)
{
    struct atta_collective collective = pipes_collective(&own->pipes);
    all_queries(own, &collective);
}

/* ---- The program's own broadcast and reduction. ---- */

static int broadcast(void *data, void *bytes, size_t count)
{
    struct own *own = data;
    if (own->pipes.rank > 0)
        return pipes_receive(&own->pipes, 0, bytes, count);
    for (uint32_t to = 1; to < own->pipes.pipes->ranks; to++) {
        int error = pipes_send(&own->pipes, to, bytes, count);
        if (error != 0)
            return error;
    }
    return 0;
}

static int gathered(struct own *own, struct atta_value *value, uint32_t from)
{
    size_t count = 0;
    int error = pipes_receive(&own->pipes, from, &count, sizeof count);
    char *bytes = malloc(count + 1);
    CHECK(bytes != NULL);
    if (error == 0)
        error = pipes_receive(&own->pipes, from, bytes, count);
    /* An error of a rank stays in the value. */
    if (error == 0)
        (void)atta_value_merge(value, bytes, count);
    free(bytes);
    return error;
}

/* Gathers all values on rank 0, the highest rank first. */
static int reduce(void *data, struct atta_value *value)
{
    struct own *own = data;
    int error = 0;
    if (own->pipes.rank > 0) {
        const void *bytes;
        size_t count;
        CHECK(atta_value_bytes(value, &bytes, &count) == 0);
        error = pipes_send(&own->pipes, 0, &count, sizeof count);
        return error != 0 ? error : pipes_send(&own->pipes, 0, bytes, count);
    }
    for (uint32_t from = own->pipes.pipes->ranks - 1; from > 0 && error == 0; from--)
        error = gathered(own, value, from);
    return error;
}

static struct atta_collective own_collective(struct own *own)
{
    return (struct atta_collective){
        .size = sizeof(struct atta_collective),
        .data = own,
        .rank = own->pipes.rank,
        .ranks = own->pipes.pipes->ranks,
        .broadcast = broadcast,
        .reduce = reduce,
    };
}

static void by_broadcast_and_reduction(struct own *own)
{
    struct atta_collective collective = own_collective(own);
    all_queries(own, &collective);
}

/* ---- What goes wrong. ---- */

static int failing_receive(void *data, uint32_t from, void *bytes, size_t count)
{
    struct own *own = data;
    int error = pipes_receive(&own->pipes, from, bytes, count);
    return own->fails_in > 0 && --own->fails_in == 0 ? ECOMM : error;
}

static int send_of(void *data, uint32_t to, const void *bytes, size_t count)
{
    struct own *own = data;
    return pipes_send(&own->pipes, to, bytes, count);
}

static void refused(atta_status status, int query, int error)
{
    int answer = -1;
    CHECK(atta_status_ask(status, query, "/home/f", &answer) == -1 && errno == error && answer == -1);
}

/* Rank 2 gets nothing of rank 3: all ranks learn of it, and the status is over. */
static void error_of_a_function(struct own *own)
{
    struct atta_collective collective = pipes_collective(&own->pipes);
    uint32_t rank;
    collective.data = own;
    collective.send = send_of;
    collective.receive = failing_receive;
    atta_status status = joined(own, &collective);
    if (own->pipes.rank == 2)
        own->fails_in = 1;
    refused(status, ATTA_IS_UNIQUE, ECOMM);
    CHECK(atta_status_failed_rank(status, &rank) == -1 && errno == ENODATA);
    refused(status, ATTA_IS_UNIQUE, ECOMM);
    atta_map map;
    CHECK(atta_map_build(status, &map) == -1 && errno == ECOMM);
    CHECK(atta_free(status) == 0);
}

/* Errors that are no errno. */
static int negative(void *data, void *bytes, size_t count)
{
    (void)data, (void)bytes, (void)count;
    return -7;
}

static void negative_error(struct own *own)
{
    struct atta_collective collective = own_collective(own);
    atta_mounts mounts = mounts_of(own->pipes.rank);
    atta_status status;
    collective.broadcast = negative;
    CHECK(atta_status_join(mounts, &collective, NULL, &status) == -1 && errno == EIO);
    CHECK(atta_free(mounts) == 0);
}

static void different_questions(struct own *own)
{
    struct atta_collective collective = pipes_collective(&own->pipes);
    atta_status status = joined(own, &collective);
    refused(status, own->pipes.rank == 1 ? ATTA_IS_WELL_DISTRIBUTED : ATTA_IS_UNIQUE, EPROTO);
    refused(status, ATTA_IS_UNIQUE, EPROTO);
    CHECK(atta_free(status) == 0);
}

static void different_questions_reduced(struct own *own)
{
    struct atta_collective collective = own_collective(own);
    atta_status status = joined(own, &collective);
    refused(status, own->pipes.rank == 1 ? ATTA_IS_WELL_DISTRIBUTED : ATTA_IS_UNIQUE, EPROTO);
    CHECK(atta_free(status) == 0);
}

/* A wrong path on one rank, and a file that one rank cannot read: all learn which one, and go on. */
static void errors_of_one_rank(struct own *own)
{
    struct atta_collective collective = pipes_collective(&own->pipes);
    atta_status status = joined(own, &collective);
    uint32_t rank = 99;
    int answer = -1;
    const char *const wrong[] = {NULL, "", "relative"};
    const int errors[] = {EFAULT, ENOENT, EINVAL};
    for (int at = 0; at < 3; at++) {
        const char *path = own->pipes.rank == 3 ? wrong[at] : "/home/f";
        int error = own->pipes.rank == 3 ? errors[at] : ENODEV;
        CHECK(atta_status_ask(status, ATTA_IS_UNIQUE, path, &answer) == -1 && errno == error && answer == -1);
        CHECK(atta_status_failed_rank(status, &rank) == 0 && rank == 3);
    }
    /* Directories are no files. */
    CHECK(atta_status_ask(status, ATTA_IS_CONSISTENT, own->directory, &answer) == -1 && errno == EISDIR);
    CHECK(atta_status_failed_rank(status, &rank) == 0 && rank == 0);
    CHECK(asked(status, ATTA_IS_UNIQUE, "/home/f") == ATTA_YES);
    CHECK(atta_status_failed_rank(status, &rank) == -1 && errno == ENODATA);
    CHECK(atta_free(status) == 0);
}

/* A function that asks the same status again. */
static atta_status again;

static int asking_receive(void *data, uint32_t from, void *bytes, size_t count)
{
    int answer = -1;
    if (again != 0)
        CHECK(atta_status_ask(again, ATTA_IS_UNIQUE, "/home/f", &answer) == -1 && errno == EBUSY);
    return pipes_receive(data, from, bytes, count);
}

static void question_within_a_question(struct own *own)
{
    struct atta_collective collective = pipes_collective(&own->pipes);
    if (own->pipes.rank == 0)
        collective.receive = asking_receive;
    atta_status status = joined(own, &collective);
    if (own->pipes.rank == 0)
        again = status;
    CHECK(asked(status, ATTA_IS_UNIQUE, "/home/f") == ATTA_YES);
    CHECK(atta_free(status) == 0);
}

/* Options of rank 0 count. */
static void options_of_the_first_rank(struct own *own)
{
    struct atta_collective collective = pipes_collective(&own->pipes);
    struct atta_status_options options = {.size = sizeof options, .ranks_per_server = own->pipes.rank == 0 ? 1000 : 1};
    struct atta_groups groups = {.size = sizeof groups};
    atta_mounts mounts = mounts_of(own->pipes.rank);
    atta_status status = 0;
    options.classes_max = 1;
    CHECK(atta_status_join(mounts, &collective, &options, &status) == 0);
    CHECK(asked(status, ATTA_IS_WELL_DISTRIBUTED, "/scratch/f") == ATTA_YES);
    /* More groups than are listed. */
    atta_distribution found;
    struct atta_descriptor place = {.size = sizeof place};
    CHECK(atta_status_distribution(status, "/scratch/f", &found) == 0);
    CHECK(atta_distribution_groups(found, &groups) == 0 && groups.listed == 0 && groups.low == 2);
    CHECK(atta_distribution_descriptor(found, &place) == -1 && errno == ENODATA);
    CHECK(atta_free(found) == 0 && atta_free(status) == 0 && atta_free(mounts) == 0);
}

int main(int count, char **arguments)
{
    CHECK(count == 2);
    signal(SIGPIPE, SIG_IGN);
    for (uint32_t ranks = 3; ranks <= RANKS_MAX; ranks += 2) {
        run(ranks, arguments[1], by_send_and_receive);
        run(ranks, arguments[1], by_broadcast_and_reduction);
    }
    run(5, arguments[1], error_of_a_function);
    run(3, arguments[1], negative_error);
    run(5, arguments[1], different_questions);
    run(4, arguments[1], different_questions_reduced);
    run(5, arguments[1], errors_of_one_rank);
    run(2, arguments[1], question_within_a_question);
    run(4, arguments[1], options_of_the_first_rank);
    return 0;
}
