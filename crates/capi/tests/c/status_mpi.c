/* Ranks of MPI: all queries over the world and over a part of it, while messages of the program itself are under
 * way. */
#include <sys/stat.h>

#include "atta_status_mpi.h"
#include "ranks.h"

/* All queries over a communicator. */
static void over(MPI_Comm comm, const char *directory)
{
    struct atta_mpi mpi;
    struct atta_collective collective;
    atta_status status = 0;
    CHECK(atta_mpi_open(&mpi, comm, &collective) == 0);
    atta_mounts mounts = mounts_of(collective.rank);
    CHECK(atta_status_join(mounts, &collective, NULL, &status) == 0);
    check_queries(status, collective.rank, collective.ranks);
    check_contents(status, collective.rank, collective.ranks, directory);
    check_saved(status, collective.rank, directory);
    check_places(status, collective.ranks);
    CHECK(atta_free(status) == 0 && atta_free(mounts) == 0 && atta_mpi_close(&mpi) == 0);
    CHECK(atta_mpi_close(&mpi) == -1 && errno == EINVAL);
}

/* Communicators that cannot be used. */
static void wrong(MPI_Comm half, int is_low)
{
    struct atta_mpi mpi;
    struct atta_collective collective;
    MPI_Comm between;
    CHECK(atta_mpi_open(NULL, half, &collective) == -1 && errno == EFAULT);
    CHECK(atta_mpi_open(&mpi, half, NULL) == -1 && errno == EFAULT);
    CHECK(atta_mpi_open(&mpi, MPI_COMM_NULL, &collective) == -1 && errno == EINVAL);
    CHECK(atta_mpi_close(NULL) == -1 && errno == EFAULT);
    CHECK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, is_low ? 3 : 0, 5, &between) == MPI_SUCCESS);
    CHECK(atta_mpi_open(&mpi, between, &collective) == -1 && errno == EINVAL);
    MPI_Comm_free(&between);
}

int main(int count, char **arguments)
{
    struct atta_mpi early;
    struct atta_collective collective;
    char directory[400];
    int rank, ranks, sent, got = -1;
    MPI_Request request;
    MPI_Comm half;
    CHECK(count == 2);
    CHECK(atta_mpi_open(&early, MPI_COMM_WORLD, &collective) == -1 && errno == EINVAL);
    CHECK(MPI_Init(&count, &arguments) == MPI_SUCCESS);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    CHECK(ranks == 6);

    /* A message of the program with the tag of the library, which a receive of any message would take. */
    sent = rank;
    MPI_Isend(&sent, 1, MPI_INT, (rank + 1) % ranks, 0, MPI_COMM_WORLD, &request);
    over(MPI_COMM_WORLD, arguments[1]);

    /* Halves in the opposite order: their ranks are others than those of the world. They ask at the same time. */
    CHECK(MPI_Comm_split(MPI_COMM_WORLD, rank < 3, -rank, &half) == MPI_SUCCESS);
    snprintf(directory, sizeof directory, "%s/%s", arguments[1], rank < 3 ? "low" : "high");
    CHECK(mkdir(directory, 0700) == 0 || errno == EEXIST);
    over(half, directory);
    /* Only one half asks. */
    if (rank < 3)
        over(half, directory);

    MPI_Comm straight;
    CHECK(MPI_Comm_split(MPI_COMM_WORLD, rank < 3, rank, &straight) == MPI_SUCCESS);
    wrong(straight, rank < 3);
    MPI_Comm_free(&straight);

    MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(got == (rank + ranks - 1) % ranks);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_free(&half);
    MPI_Finalize();
    CHECK(atta_mpi_open(&early, MPI_COMM_WORLD, &collective) == -1 && errno == EINVAL);
    return 0;
}
