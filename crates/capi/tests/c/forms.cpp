// Both forms of a continuation, in C++: functions that return int or nothing, lambdas, pointers, and none.
#include <semaphore.h>

#include "check.h"

static sem_t over;

static void note(void *cdat, int status)
{
    *static_cast<int *>(cdat) = status;
    sem_post(&over);
}

static int returns_int(void *cdat, int status)
{
    note(cdat, status);
    return 7;
}

static void returns_nothing(void *cdat, int status) noexcept
{
    note(cdat, status);
}

extern "C" {
static void with_c_linkage(void *cdat, int status)
{
    note(cdat, status);
}
}

int main()
{
    int statuses[7] = {-1, -1, -1, -1, -1, -1, -1};
    pxfs_cb kept_int = returns_int;
    pxfs_void_cb kept_void = returns_nothing;
    struct stat status;
    CHECK(sem_init(&over, 0, 0) == 0);
    CHECK(pxfs_stat("/", &status, returns_int, &statuses[0]) == 0);
    CHECK(pxfs_stat("/nothing/here", &status, returns_nothing, &statuses[1]) == 0);
    CHECK(pxfs_stat("/", &status, with_c_linkage, &statuses[2]) == 0);
    CHECK(pxfs_stat("/", &status, kept_int, &statuses[3]) == 0);
    CHECK(pxfs_stat("/", &status, kept_void, &statuses[4]) == 0);
    CHECK(pxfs_stat("/", &status, [](void *cdat, int status) { note(cdat, status); }, &statuses[5]) == 0);
    CHECK(pxfs_stat("/", &status, [](void *cdat, int status) { return returns_int(cdat, status); }, &statuses[6]) == 0);
    for (int count = 0; count < 7; count++)
        CHECK(sem_wait(&over) == 0);
    for (int form = 0; form < 7; form++)
        CHECK(statuses[form] == (form == 1 ? ENOENT : 0));
    CHECK(ended(pxfs_stat("/", &status, nullptr, nullptr)) == 0);
    CHECK(ended(pxfs_stat("/", &status, NULL, NULL)) == 0);
    CHECK(ended(pxfs_stat("/", &status, 0, NULL)) == 0);
    CHECK(atta_shutdown(ATTA_DRAIN, -1) == 0);
    return 0;
}
