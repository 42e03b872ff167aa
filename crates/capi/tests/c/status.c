/* atta_status.h in one process: mount tables, names, and queries of a rank that is alone. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "atta_status.h"
#include "check.h"

static const char LINES[] = "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
                            "36 21 0:40 / /home rw - nfs4 Server:/export/home rw,addr=192.0.2.7\n"
                            "37 21 0:41 / /data\\040x rw - nfs other:/data rw\n";

static atta_mounts read_lines(const char *lines, const char *boot_id, const char *host)
{
    atta_mounts mounts = 0;
    CHECK(atta_mounts_from_text(lines, strlen(lines), boot_id, host, &mounts) == 0 && mounts != 0);
    return mounts;
}

static atta_uri uri_of(atta_mounts mounts, const char *path)
{
    atta_uri uri = 0;
    CHECK(atta_mounts_uri(mounts, path, &uri) == 0 && uri != 0);
    return uri;
}

static int relation_of(atta_uri one, atta_uri other)
{
    int relation = -1;
    CHECK(atta_uri_relation(one, other, &relation) == 0);
    return relation;
}

static void names(void)
{
    atta_mounts mounts = read_lines(LINES, "boot", "node1"), elsewhere = read_lines(LINES, "boot2", "node2");
    atta_mount mount = 0;
    CHECK(atta_mounts_mount(mounts, "/data x/../home//f/", &mount) == 0);
    CHECK(strcmp(atta_mount_point(mount), "/home") == 0 && strcmp(atta_mount_type(mount), "nfs4") == 0);
    CHECK(strcmp(atta_mount_source(mount), "Server:/export/home") == 0);
    CHECK(atta_free(mount) == 0);
    CHECK(atta_mounts_mount(mounts, "/data x/f", &mount) == 0 && strcmp(atta_mount_point(mount), "/data x") == 0);
    CHECK(atta_free(mount) == 0);

    atta_uri home = uri_of(mounts, "/home/./me//file"), etc = uri_of(mounts, "/etc"), data = uri_of(mounts, "/data x/f");
    CHECK(strcmp(atta_uri_text(home), "nfs://server/export/home/me/file") == 0);
    CHECK(strcmp(atta_uri_canonical(home), "nfs://192.0.2.7/export/home/me/file") == 0);
    CHECK(strcmp(atta_uri_text(etc), "ext4://8:1@node1/etc") == 0);
    CHECK(strcmp(atta_uri_canonical(etc), "ext4://8:1@boot/etc") == 0);

    atta_uri there = uri_of(elsewhere, "/home/me/file"), other = uri_of(elsewhere, "/home/me");
    atta_uri disk = uri_of(elsewhere, "/etc");
    CHECK(relation_of(home, there) == ATTA_SAME && relation_of(home, other) == ATTA_DIFFERENT);
    CHECK(relation_of(etc, disk) == ATTA_DIFFERENT && relation_of(home, etc) == ATTA_UNKNOWN);
    int relation = -1;
    CHECK(atta_uri_file_system_relation(home, other, &relation) == 0 && relation == ATTA_SAME);
    CHECK(atta_uri_file_system_relation(etc, disk, &relation) == 0 && relation == ATTA_DIFFERENT);
    /* Names stay when their table is gone. */
    CHECK(atta_free(mounts) == 0 && atta_free(elsewhere) == 0);
    CHECK(strcmp(atta_uri_text(data), "nfs://other/data/f") == 0 && relation_of(data, data) == ATTA_SAME);
    atta_uri all[] = {home, etc, data, there, other, disk};
    for (size_t at = 0; at < sizeof all / sizeof *all; at++)
        CHECK(atta_free(all[at]) == 0);
}

static void live(const char *path)
{
    atta_mounts mounts = 0, text = read_lines(LINES, "boot", "node");
    int changed = -1;
    CHECK(atta_mounts_read(&mounts) == 0);
    CHECK(atta_mounts_refresh(mounts, &changed) == 0 && (changed == 0 || changed == 1));
    CHECK(atta_mounts_refresh(mounts, NULL) == 0);
    CHECK(atta_mounts_refresh(text, &changed) == -1 && errno == EOPNOTSUPP);
    atta_uri uri = uri_of(mounts, path);
    atta_mount mount = 0;
    CHECK(atta_mounts_mount(mounts, path, &mount) == 0);
    CHECK(strncmp(path, atta_mount_point(mount), strlen(atta_mount_point(mount))) == 0);
    CHECK(strstr(atta_uri_text(uri), "://") != NULL);
    CHECK(atta_free(uri) == 0 && atta_free(mount) == 0 && atta_free(mounts) == 0 && atta_free(text) == 0);
}

static int answer_of(atta_status status, int query, const char *path)
{
    int answer = -1;
    CHECK(atta_status_ask(status, query, path, &answer) == 0);
    return answer;
}

static void distribution_of(atta_distribution found, uint32_t listed)
{
    struct atta_groups groups = {.size = sizeof groups};
    struct atta_group group = {.size = sizeof group};
    struct atta_descriptor own = {.size = sizeof own};
    uint32_t ranks[4] = {9, 9, 9, 9};
    size_t count = 0;
    int answer = -1;
    CHECK(atta_distribution_groups(found, &groups) == 0);
    CHECK(groups.low == 1 && groups.high == 1 && !groups.is_estimate && groups.listed == listed);
    CHECK(groups.size == sizeof groups);
    CHECK(atta_distribution_group(found, 0, &group) == 0 && group.size == sizeof group);
    CHECK(group.ranks == 1 && group.listed == 1 && group.representative == 0 && group.is_certain);
    CHECK(atta_distribution_members(found, 0, ranks, 4, &count) == 0);
    CHECK(count == 1 && ranks[0] == 0 && ranks[1] == 9);
    CHECK(atta_distribution_members(found, 0, NULL, 0, &count) == 0 && count == 0);
    CHECK(atta_distribution_descriptor(found, &own) == 0);
    CHECK(own.groups == 1 && own.group == 0 && own.ranks == 1 && own.representative == 0);
    CHECK(own.rank_in_group == 0 && own.is_certain);
    CHECK(atta_distribution_ask(found, ATTA_IS_UNIQUE, &answer) == 0 && answer == ATTA_YES);
    CHECK(atta_free(found) == 0);
}

static void queries(atta_status status)
{
    CHECK(answer_of(status, ATTA_IS_UNIQUE, "/home/f") == ATTA_YES);
    CHECK(answer_of(status, ATTA_IS_FULLY_DISTRIBUTED, "/home/f") == ATTA_NO);
    CHECK(answer_of(status, ATTA_IS_FULLY_DISTRIBUTED, "/etc") == ATTA_YES);
    CHECK(answer_of(status, ATTA_IS_WELL_DISTRIBUTED, "/home/f") == ATTA_NO);
    CHECK(answer_of(status, ATTA_IS_POORLY_DISTRIBUTED, "/home/f") == ATTA_YES);
    CHECK(answer_of(status, ATTA_IS_CONSISTENT, "/home/f") == ATTA_YES);
    atta_distribution found = 0;
    CHECK(atta_status_distribution(status, "/home/f", &found) == 0);
    distribution_of(found, 1);
    CHECK(atta_status_groups(status, "/home/f", &found) == 0);
    distribution_of(found, 1);

    atta_map map = 0;
    int answer = -1;
    CHECK(atta_map_build(status, &map) == 0);
    CHECK(atta_map_ask(map, ATTA_IS_POORLY_DISTRIBUTED, "/home/f", &answer) == 0 && answer == ATTA_YES);
    CHECK(atta_map_ask(map, ATTA_IS_FULLY_DISTRIBUTED, "/etc", &answer) == 0 && answer == ATTA_YES);
    CHECK(atta_map_distribution(map, "/home/f", &found) == 0);
    distribution_of(found, 1);
    CHECK(atta_free(map) == 0);
}

/* The speed that a search knows of the mount of a directory. */
static uint64_t speed_in(atta_speeds speeds, const char *point)
{
    struct atta_requirements wanted = {.size = sizeof wanted, .wait_ms = 100000};
    struct atta_place place = {.size = sizeof place};
    atta_mounts mounts = 0;
    atta_status status = 0;
    atta_map map = 0;
    atta_places places = 0;
    size_t count = 0;
    uint64_t measured = 0;
    CHECK(atta_mounts_read(&mounts) == 0 && atta_status_join(mounts, NULL, NULL, &status) == 0);
    CHECK(atta_map_build(status, &map) == 0 && atta_places_find(status, map, speeds, &wanted, &places) == 0);
    CHECK(atta_places_count(places, &count) == 0 && count > 0);
    for (size_t number = 0; number < count; number++) {
        CHECK(atta_places_get(places, number, &place) == 0);
        if (strcmp(place.point, point) == 0)
            measured = place.measured;
    }
    CHECK(atta_free(mounts) == 0 && atta_free(status) == 0 && atta_free(map) == 0 && atta_free(places) == 0);
    return measured;
}

static void speeds(const char *directory)
{
    char file[500];
    atta_mounts mounts = 0;
    atta_mount mount = 0;
    atta_speeds none = 0, measured = 0, loaded = 0;
    snprintf(file, sizeof file, "%s/speeds", directory);
    CHECK(atta_mounts_read(&mounts) == 0 && atta_mounts_mount(mounts, directory, &mount) == 0);
    CHECK(atta_speeds_load(file, &none) == 0 && atta_speeds_load(file, &measured) == 0);
    CHECK(atta_speeds_measure(measured, mounts, directory, -1) == 0);
    CHECK(atta_speeds_measure(measured, mounts, directory, 100000) == 0);
    CHECK(atta_speeds_measure(measured, mounts, file, 100000) == -1 && errno == ENOENT);
    CHECK(atta_speeds_save(measured, file) == 0 && atta_speeds_load(file, &loaded) == 0);
    uint64_t speed = speed_in(measured, atta_mount_point(mount));
    CHECK(speed > 0 && speed_in(loaded, atta_mount_point(mount)) == speed);
    CHECK(speed_in(none, atta_mount_point(mount)) == 0 && speed_in(0, atta_mount_point(mount)) == 0);
    CHECK(atta_free(none) == 0 && atta_free(measured) == 0 && atta_free(loaded) == 0);
    CHECK(atta_free(mount) == 0 && atta_free(mounts) == 0);
}

/* A map without ranks. */
static void saved_map(atta_status status, atta_mounts mounts, const char *directory)
{
    char file[500];
    atta_map map = 0;
    int answer = -1;
    snprintf(file, sizeof file, "%s/map", directory);
    CHECK(atta_map_build(status, &map) == 0 && atta_map_save(status, map, file) == 0 && atta_free(map) == 0);
    CHECK(atta_map_load(file, mounts, NULL, &map) == 0);
    CHECK(atta_map_ask(map, ATTA_IS_UNIQUE, "/home/f", &answer) == 0 && answer == ATTA_YES);
    CHECK(atta_free(map) == 0);
}

int main(int count, char **arguments)
{
    CHECK(count == 2);
    names();
    live(arguments[1]);
    speeds(arguments[1]);
    atta_mounts mounts = read_lines(LINES, "boot", "node");
    /* A table of one rank needs no functions. */
    struct atta_collective one = {.size = sizeof one, .ranks = 1};
    struct atta_status_options options = {.size = sizeof options, .ranks_per_server = 1};
    atta_status alone = 0, status = 0;
    uint32_t rank = 7;
    CHECK(atta_status_join(mounts, NULL, NULL, &alone) == 0);
    CHECK(atta_status_join(mounts, &one, &options, &status) == 0);
    saved_map(alone, mounts, arguments[1]);
    CHECK(atta_free(mounts) == 0);
    queries(alone);
    queries(status);
    CHECK(atta_status_failed_rank(status, &rank) == -1 && errno == ENODATA && rank == 7);
    CHECK(atta_free(alone) == 0 && atta_free(status) == 0);
    return 0;
}
