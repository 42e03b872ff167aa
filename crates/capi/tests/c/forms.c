/* Both forms of a continuation, in C: one that returns int, as in PXFS, and one that returns nothing, as in table 3.2 of the
 * thesis. */
#include <semaphore.h>

#include "check.h"

static sem_t over;

static int returns_int(void *cdat, int status)
{
    *(int *)cdat = status;
    sem_post(&over);
    return 7;
}

static void returns_nothing(void *cdat, int status)
{
    *(int *)cdat = status;
    sem_post(&over);
}

int main(void)
{
    int statuses[5] = {-1, -1, -1, -1, -1};
    pxfs_cb kept_int = returns_int;
    pxfs_void_cb kept_void = returns_nothing;
    struct stat status;
    CHECK(sem_init(&over, 0, 0) == 0);
    CHECK(pxfs_stat("/", &status, returns_int, &statuses[0]) == 0);
    CHECK(pxfs_stat("/", &status, returns_nothing, &statuses[1]) == 0);
    CHECK(pxfs_stat("/nothing/here", &status, &returns_nothing, &statuses[2]) == 0);
    CHECK(pxfs_stat("/", &status, kept_int, &statuses[3]) == 0);
    CHECK(pxfs_stat("/", &status, kept_void, &statuses[4]) == 0);
    for (int count = 0; count < 5; count++)
        CHECK(sem_wait(&over) == 0);
    CHECK(statuses[0] == 0 && statuses[1] == 0 && statuses[2] == ENOENT && statuses[3] == 0 && statuses[4] == 0);
    CHECK(ended(pxfs_stat("/", &status, NULL, NULL)) == 0);
    CHECK(ended(pxfs_stat("/", &status, 0, NULL)) == 0);
    CHECK(atta_shutdown(ATTA_DRAIN, -1) == 0);
    return 0;
}
