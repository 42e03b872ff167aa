/* Every function of atta_status.h with NULL, numbers of nothing or of something else, and wrong paths: an error, and
 * nothing is stored. */
#define _GNU_SOURCE
#include <stdint.h>

#include "atta_status.h"
#include "check.h"

#define REFUSED(error, call)                     \
    do {                                         \
        errno = 0;                               \
        CHECK((call) == -1 && errno == (error)); \
    } while (0)

#define NO_TEXT(call)                              \
    do {                                           \
        errno = 0;                                 \
        CHECK((call) == NULL && errno == (EBADF)); \
    } while (0)

static const char LINE[] = "36 1 0:40 / /home rw - nfs4 server:/home rw,addr=192.0.2.7\n";

static atta_mounts mounts;
static atta_uri uri;
static atta_status status;
static atta_map map;
static atta_distribution found;
static atta_speeds speeds;
static atta_places places;
static uint64_t out;
static int answer;

static void numbers_of(uint64_t bad)
{
    struct atta_groups groups = {.size = sizeof groups};
    struct atta_group group = {.size = sizeof group};
    struct atta_descriptor own = {.size = sizeof own};
    uint32_t rank;
    size_t count;
    REFUSED(EBADF, atta_mounts_refresh(bad, NULL));
    REFUSED(EBADF, atta_mounts_mount(bad, "/home", &out));
    REFUSED(EBADF, atta_mounts_uri(bad, "/home", &out));
    NO_TEXT(atta_mount_point(bad));
    NO_TEXT(atta_mount_type(bad));
    NO_TEXT(atta_mount_source(bad));
    NO_TEXT(atta_uri_text(bad));
    NO_TEXT(atta_uri_canonical(bad));
    REFUSED(EBADF, atta_uri_relation(bad, uri, &answer));
    REFUSED(EBADF, atta_uri_relation(uri, bad, &answer));
    REFUSED(EBADF, atta_uri_file_system_relation(bad, uri, &answer));
    REFUSED(EBADF, atta_status_join(bad, NULL, NULL, &out));
    REFUSED(EBADF, atta_status_failed_rank(bad, &rank));
    REFUSED(EBADF, atta_status_ask(bad, ATTA_IS_UNIQUE, "/home", &answer));
    REFUSED(EBADF, atta_status_distribution(bad, "/home", &out));
    REFUSED(EBADF, atta_status_groups(bad, "/home", &out));
    REFUSED(EBADF, atta_map_build(bad, &out));
    REFUSED(EBADF, atta_map_ask(bad, ATTA_IS_UNIQUE, "/home", &answer));
    REFUSED(EBADF, atta_map_distribution(bad, "/home", &out));
    struct atta_requirements wanted = {.size = sizeof wanted};
    struct atta_place place = {.size = sizeof place};
    REFUSED(EBADF, atta_map_save(bad, map, NULL));
    REFUSED(EBADF, atta_map_save(status, bad, NULL));
    REFUSED(EBADF, atta_map_load("/nothing", bad, NULL, &out));
    REFUSED(EBADF, atta_speeds_save(bad, "/nothing"));
    REFUSED(EBADF, atta_speeds_measure(bad, mounts, "/home", -1));
    REFUSED(EBADF, atta_speeds_measure(speeds, bad, "/home", -1));
    REFUSED(EBADF, atta_places_find(bad, map, 0, &wanted, &out));
    REFUSED(EBADF, atta_places_find(status, bad, 0, &wanted, &out));
    if (bad != 0)
        REFUSED(EBADF, atta_places_find(status, map, bad, &wanted, &out));
    REFUSED(EBADF, atta_places_count(bad, &count));
    REFUSED(EBADF, atta_places_get(bad, 0, &place));
    REFUSED(EBADF, atta_distribution_ask(bad, ATTA_IS_UNIQUE, &answer));
    REFUSED(EBADF, atta_distribution_groups(bad, &groups));
    REFUSED(EBADF, atta_distribution_group(bad, 0, &group));
    REFUSED(EBADF, atta_distribution_members(bad, 0, &rank, 1, &count));
    REFUSED(EBADF, atta_distribution_descriptor(bad, &own));
}

static void nulls(void)
{
    size_t count;
    uint32_t rank;
    REFUSED(EFAULT, atta_mounts_read(NULL));
    REFUSED(EFAULT, atta_mounts_from_text(NULL, 5, "b", "h", &out));
    REFUSED(EFAULT, atta_mounts_from_text(LINE, strlen(LINE), NULL, "h", &out));
    REFUSED(EFAULT, atta_mounts_from_text(LINE, strlen(LINE), "b", NULL, &out));
    REFUSED(EFAULT, atta_mounts_from_text(LINE, strlen(LINE), "b", "h", NULL));
    REFUSED(EFAULT, atta_mounts_mount(mounts, "/home", NULL));
    REFUSED(EFAULT, atta_mounts_uri(mounts, "/home", NULL));
    REFUSED(EFAULT, atta_uri_relation(uri, uri, NULL));
    REFUSED(EFAULT, atta_uri_file_system_relation(uri, uri, NULL));
    REFUSED(EFAULT, atta_status_join(mounts, NULL, NULL, NULL));
    REFUSED(EFAULT, atta_status_failed_rank(status, NULL));
    REFUSED(EFAULT, atta_status_ask(status, ATTA_IS_UNIQUE, "/home", NULL));
    REFUSED(EFAULT, atta_status_distribution(status, "/home", NULL));
    REFUSED(EFAULT, atta_status_groups(status, "/home", NULL));
    REFUSED(EFAULT, atta_map_build(status, NULL));
    REFUSED(EFAULT, atta_map_ask(map, ATTA_IS_UNIQUE, "/home", NULL));
    REFUSED(EFAULT, atta_map_distribution(map, "/home", NULL));
    REFUSED(EFAULT, atta_distribution_ask(found, ATTA_IS_UNIQUE, NULL));
    REFUSED(EFAULT, atta_distribution_groups(found, NULL));
    REFUSED(EFAULT, atta_distribution_group(found, 0, NULL));
    REFUSED(EFAULT, atta_distribution_members(found, 0, NULL, 1, &count));
    REFUSED(EFAULT, atta_distribution_members(found, 0, &rank, 1, NULL));
    REFUSED(EFAULT, atta_distribution_descriptor(found, NULL));
    struct atta_requirements wanted = {.size = sizeof wanted};
    REFUSED(EFAULT, atta_map_load(NULL, mounts, NULL, &out));
    REFUSED(EFAULT, atta_map_load("/nothing", mounts, NULL, NULL));
    REFUSED(EFAULT, atta_speeds_load(NULL, &out));
    REFUSED(EFAULT, atta_speeds_load("/nothing", NULL));
    REFUSED(EFAULT, atta_speeds_save(speeds, NULL));
    REFUSED(EFAULT, atta_speeds_measure(speeds, mounts, NULL, -1));
    REFUSED(EFAULT, atta_places_find(status, map, 0, NULL, &out));
    REFUSED(EFAULT, atta_places_find(status, map, 0, &wanted, NULL));
    REFUSED(EFAULT, atta_places_count(places, NULL));
    REFUSED(EFAULT, atta_places_get(places, 0, NULL));
    const void *bytes;
    REFUSED(EFAULT, atta_value_bytes(NULL, &bytes, &count));
    REFUSED(EFAULT, atta_value_merge(NULL, "", 0));
}

static void paths(void)
{
    const struct {
        const char *path;
        int error;
    } wrong[] = {{NULL, EFAULT}, {"", ENOENT}, {"home", EINVAL}, {"./home", EINVAL}, {"/etc", ENODEV}};
    for (size_t at = 0; at < sizeof wrong / sizeof *wrong; at++) {
        const char *path = wrong[at].path;
        int error = wrong[at].error;
        uint32_t rank = 9;
        REFUSED(error, atta_mounts_mount(mounts, path, &out));
        REFUSED(error, atta_mounts_uri(mounts, path, &out));
        REFUSED(error, atta_status_ask(status, ATTA_IS_UNIQUE, path, &answer));
        CHECK(atta_status_failed_rank(status, &rank) == 0 && rank == 0);
        REFUSED(error, atta_status_distribution(status, path, &out));
        REFUSED(error, atta_status_groups(status, path, &out));
        REFUSED(error, atta_map_ask(map, ATTA_IS_UNIQUE, path, &answer));
        REFUSED(error, atta_map_distribution(map, path, &out));
        REFUSED(error, atta_speeds_measure(speeds, mounts, path, -1));
    }
    /* The status is still of use. */
    CHECK(atta_status_ask(status, ATTA_IS_UNIQUE, "/home", &answer) == 0 && answer == ATTA_YES);
    answer = -1;
}

static void texts(void)
{
    static const char zero[] = "36 1 0:40 / /ho\0me rw - nfs4 s:/h rw\n";
    static const char escaped[] = "36 1 0:40 / /ho\\000me rw - nfs4 s:/h rw\n";
    REFUSED(EINVAL, atta_mounts_from_text("", 0, "b", "h", &out));
    REFUSED(EINVAL, atta_mounts_from_text(NULL, 0, "b", "h", &out));
    REFUSED(EINVAL, atta_mounts_from_text(zero, sizeof zero - 1, "b", "h", &out));
    REFUSED(EINVAL, atta_mounts_from_text(escaped, sizeof escaped - 1, "b", "h", &out));
    REFUSED(EINVAL, atta_mounts_from_text("no line\n", 8, "b", "h", &out));
    REFUSED(EINVAL, atta_mounts_from_text(LINE, strlen(LINE), "", "h", &out));
    REFUSED(EINVAL, atta_mounts_from_text(LINE, SIZE_MAX, "b", "h", &out));
}

static void queries(void)
{
    const int wrong[] = {-1, 0, 6, 1000};
    for (size_t at = 0; at < sizeof wrong / sizeof *wrong; at++) {
        REFUSED(EINVAL, atta_status_ask(status, wrong[at], "/home", &answer));
        REFUSED(EINVAL, atta_map_ask(map, wrong[at], "/home", &answer));
        REFUSED(EINVAL, atta_distribution_ask(found, wrong[at], &answer));
    }
    struct atta_group group = {.size = sizeof group};
    struct atta_groups groups = {.size = 4};
    uint32_t rank;
    size_t count;
    REFUSED(EINVAL, atta_distribution_group(found, 1, &group));
    REFUSED(EINVAL, atta_distribution_members(found, 1, &rank, 1, &count));
    REFUSED(EINVAL, atta_distribution_groups(found, &groups));
}

static int never_send(void *data, uint32_t to, const void *bytes, size_t count)
{
    (void)data, (void)to, (void)bytes, (void)count;
    _Exit(9);
}

static int never_broadcast(void *data, void *bytes, size_t count)
{
    (void)data, (void)bytes, (void)count;
    _Exit(9);
}

static void tables(void)
{
    struct atta_collective good = {.size = sizeof good, .ranks = 2, .rank = 0};
    struct atta_collective table = good;
    REFUSED(EINVAL, atta_status_join(mounts, &table, NULL, &out)); /* no functions */
    table.send = never_send;
    REFUSED(EINVAL, atta_status_join(mounts, &table, NULL, &out)); /* half of them */
    table.ranks = 1;
    REFUSED(EINVAL, atta_status_join(mounts, &table, NULL, &out));
    table = good;
    table.broadcast = never_broadcast;
    REFUSED(EINVAL, atta_status_join(mounts, &table, NULL, &out));
    table = (struct atta_collective){.size = sizeof table, .ranks = 0};
    REFUSED(EINVAL, atta_status_join(mounts, &table, NULL, &out));
    table = (struct atta_collective){.size = sizeof table, .ranks = 1, .rank = 1};
    REFUSED(EINVAL, atta_status_join(mounts, &table, NULL, &out));
    table = (struct atta_collective){.size = 8, .ranks = 1};
    REFUSED(EINVAL, atta_status_join(mounts, &table, NULL, &out));
    table.size = SIZE_MAX;
    REFUSED(E2BIG, atta_status_join(mounts, &table, NULL, &out));
    /* A newer header with a member that is set, and with one that is not. */
    struct {
        struct atta_collective known;
        uint64_t more;
    } newer = {{.size = sizeof newer, .ranks = 1}, 1};
    REFUSED(E2BIG, atta_status_join(mounts, &newer.known, NULL, &out));
    newer.more = 0;
    CHECK(atta_status_join(mounts, &newer.known, NULL, &out) == 0 && atta_free(out) == 0);
    out = 0;
    struct atta_status_options options = {.size = sizeof options, .assume_servers_differ = 2};
    REFUSED(EINVAL, atta_status_join(mounts, NULL, &options, &out));
    options.size = 0;
    REFUSED(EINVAL, atta_status_join(mounts, NULL, &options, &out));
}

/* Values that requirements do not have, and files that are something else. */
static void places_and_files(void)
{
    const struct atta_requirements good = {.size = sizeof good};
    struct atta_requirements wrong[6] = {good, good, good, good, good, good};
    wrong[0].speed = 3;
    wrong[1].distribution = 5;
    wrong[2].scalability = UINT32_MAX;
    wrong[3].is_writable = 2;
    wrong[4].unused = 1;
    wrong[5].size = 8;
    for (size_t at = 0; at < sizeof wrong / sizeof *wrong; at++)
        REFUSED(EINVAL, atta_places_find(status, map, 0, &wrong[at], &out));
    struct atta_place place = {.size = sizeof place};
    REFUSED(EINVAL, atta_places_get(places, 1, &place));
    REFUSED(EINVAL, atta_places_get(places, SIZE_MAX, &place));
    REFUSED(ENOENT, atta_map_load("", mounts, NULL, &out));
    REFUSED(ENOENT, atta_map_load("/no/such.directory/map", mounts, NULL, &out));
    REFUSED(ENOENT, atta_map_save(status, map, ""));
    REFUSED(ENOENT, atta_map_save(status, map, "/no/such.directory/map"));
    REFUSED(ENOENT, atta_speeds_save(speeds, "/no/such.directory/speeds"));
    REFUSED(ENOENT, atta_speeds_load("", &out));
    REFUSED(EBADMSG, atta_map_load("/proc/self/status", mounts, NULL, &out));
    REFUSED(EBADMSG, atta_speeds_load("/proc/self/status", &out));
}

/* Room for less than all: the rest of the memory stays as it was. */
static void short_structures(void)
{
    struct atta_descriptor own;
    memset(&own, 0x55, sizeof own);
    own.size = 16;
    CHECK(atta_distribution_descriptor(found, &own) == 0);
    CHECK(own.size == 16 && own.groups == 1 && own.group == 0 && own.ranks == 0x55555555);
}

int main(void)
{
    CHECK(atta_mounts_from_text(LINE, strlen(LINE), "boot", "node", &mounts) == 0);
    CHECK(atta_mounts_uri(mounts, "/home/f", &uri) == 0);
    CHECK(atta_status_join(mounts, NULL, NULL, &status) == 0);
    CHECK(atta_map_build(status, &map) == 0);
    CHECK(atta_status_distribution(status, "/home/f", &found) == 0);
    struct atta_requirements wanted = {.size = sizeof wanted, .wait_ms = 100000};
    CHECK(atta_speeds_load("/no/such.directory/speeds", &speeds) == 0);
    CHECK(atta_places_find(status, map, speeds, &wanted, &places) == 0);
    answer = -1;
    nulls();
    paths();
    texts();
    queries();
    tables();
    places_and_files();
    short_structures();
    numbers_of(0);
    numbers_of(UINT64_MAX);
    /* Of another type, and one that was given back. */
    atta_mount mount;
    CHECK(atta_mounts_mount(mounts, "/home", &mount) == 0);
    REFUSED(EBADF, atta_status_join(uri, NULL, NULL, &out));
    REFUSED(EBADF, atta_map_ask(found, ATTA_IS_UNIQUE, "/home", &answer));
    NO_TEXT(atta_uri_text(mount));
    NO_TEXT(atta_mount_point(uri));
    CHECK(atta_free(mount) == 0);
    numbers_of(mount);
    REFUSED(EBADF, atta_free(mount));
    REFUSED(EBADF, atta_free(0));
    CHECK(out == 0 && answer == -1);
    CHECK(atta_free(mounts) == 0 && atta_free(uri) == 0 && atta_free(status) == 0);
    CHECK(atta_free(map) == 0 && atta_free(found) == 0 && atta_free(speeds) == 0 && atta_free(places) == 0);
    return 0;
}
