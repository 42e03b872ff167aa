/* What programs with several ranks share: a mount table for each, as if ranks were on different hosts, and what they
 * must find. */
#ifndef RANKS_H
#define RANKS_H

#include <stdio.h>

#include "atta_status.h"
#include "check.h"

/* Ranks 0 and 1 on the first host, 2 and 3 on the next one, and so on. /home is on one server, /scratch on two (odd
 * and even ranks), / is local, /fuse is unknown. */
static inline atta_mounts mounts_of(uint32_t rank)
{
    char lines[600], boot_id[20], host[20];
    atta_mounts mounts = 0;
    snprintf(boot_id, sizeof boot_id, "boot%u", rank / 2);
    snprintf(host, sizeof host, "node%u", rank / 2);
    int bytes = snprintf(lines, sizeof lines,
                         "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
                         "36 21 0:40 / /home rw - nfs4 home:/home rw,addr=192.0.2.7\n"
                         "37 21 0:41 / /scratch rw - fuse.goofys bucket%u rw\n"
                         "38 21 0:42 / /fuse rw - fuse.what what rw\n"
                         "39 21 0:43 / /no/such.directory rw - nfs4 home:/none rw,addr=192.0.2.7\n",
                         rank % 2);
    CHECK(atta_mounts_from_text(lines, (size_t)bytes, boot_id, host, &mounts) == 0);
    return mounts;
}

static inline int asked(atta_status status, int query, const char *path)
{
    int answer = -1;
    CHECK(atta_status_ask(status, query, path, &answer) == 0);
    return answer;
}

/* The groups of /scratch: odd and even ranks. */
static inline void check_groups(atta_distribution found, uint32_t rank, uint32_t ranks)
{
    struct atta_groups groups = {.size = sizeof groups};
    struct atta_descriptor own = {.size = sizeof own};
    CHECK(atta_distribution_groups(found, &groups) == 0);
    CHECK(groups.low == 2 && groups.high == 2 && groups.listed == 2);
    CHECK(atta_distribution_descriptor(found, &own) == 0);
    CHECK(own.groups == 2 && own.group == rank % 2 && own.representative == rank % 2 && own.is_certain);
    CHECK(own.ranks == (ranks + 1 - rank % 2) / 2 && own.rank_in_group == rank / 2);
    for (uint32_t number = 0; number < 2; number++) {
        struct atta_group group = {.size = sizeof group};
        uint32_t members[300];
        size_t count = 0;
        CHECK(atta_distribution_group(found, number, &group) == 0 && group.representative == number);
        CHECK(atta_distribution_members(found, number, members, 300, &count) == 0);
        CHECK(count == group.ranks && count == group.listed && count == (ranks + 1 - number) / 2);
        for (size_t at = 0; at < count; at++)
            CHECK(members[at] == 2 * at + number);
    }
    CHECK(atta_free(found) == 0);
}

/* All queries of 3 ranks or more. */
static inline void check_queries(atta_status status, uint32_t rank, uint32_t ranks)
{
    CHECK(asked(status, ATTA_IS_UNIQUE, "/home/f") == ATTA_YES);
    CHECK(asked(status, ATTA_IS_UNIQUE, "/scratch/f") == ATTA_NO);
    CHECK(asked(status, ATTA_IS_UNIQUE, "/etc") == ATTA_NO);
    CHECK(asked(status, ATTA_IS_UNIQUE, "/fuse/f") == ATTA_UNKNOWN);
    CHECK(asked(status, ATTA_IS_FULLY_DISTRIBUTED, "/etc") == ATTA_YES);
    CHECK(asked(status, ATTA_IS_FULLY_DISTRIBUTED, "/home/f") == ATTA_NO);
    CHECK(asked(status, ATTA_IS_POORLY_DISTRIBUTED, "/home/f") == ATTA_YES);
    CHECK(asked(status, ATTA_IS_WELL_DISTRIBUTED, "/home/f") == ATTA_NO);
    CHECK(asked(status, ATTA_IS_WELL_DISTRIBUTED, "/etc") == ATTA_YES);
    /* No rank reads it: it is not there. */
    CHECK(asked(status, ATTA_IS_CONSISTENT, "/home/f") == ATTA_YES);

    atta_distribution found = 0;
    CHECK(atta_status_distribution(status, "/scratch/f", &found) == 0);
    check_groups(found, rank, ranks);
    CHECK(atta_status_groups(status, "/scratch/f", &found) == 0);
    check_groups(found, rank, ranks);

    atta_map map = 0;
    int answer = -1;
    CHECK(atta_map_build(status, &map) == 0);
    CHECK(atta_map_ask(map, ATTA_IS_UNIQUE, "/home/f", &answer) == 0 && answer == ATTA_YES);
    CHECK(atta_map_ask(map, ATTA_IS_CONSISTENT, "/scratch/f", &answer) == 0 && answer == ATTA_UNKNOWN);
    CHECK(atta_map_distribution(map, "/scratch/f", &found) == 0);
    check_groups(found, rank, ranks);
    CHECK(atta_free(map) == 0);
}

/* Files of this host under one name on all ranks: equal, and different on the last rank. The paths of ranks may
 * differ. */
static inline void check_contents(atta_status status, uint32_t rank, uint32_t ranks, const char *directory)
{
    char path[500];
    snprintf(path, sizeof path, "%s/equal.%u", directory, rank);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fputs("the same bytes", file) >= 0 && fclose(file) == 0);
    CHECK(asked(status, ATTA_IS_CONSISTENT, path) == ATTA_YES);
    snprintf(path, sizeof path, "%s/other.%u", directory, rank);
    file = fopen(path, "w");
    CHECK(file != NULL && fputs(rank == ranks - 1 ? "Other bytes!!!" : "the same bytes", file) >= 0 && fclose(file) == 0);
    CHECK(asked(status, ATTA_IS_CONSISTENT, path) == ATTA_NO);
}

/* The map in a file, which one rank saves and all load. */
static inline void check_saved(atta_status status, uint32_t rank, const char *directory)
{
    char path[500];
    atta_map map = 0, loaded = 0;
    atta_mounts mounts = mounts_of(rank);
    atta_distribution found = 0;
    struct atta_descriptor own = {.size = sizeof own};
    uint64_t age_s = 99;
    int answer = -1;
    snprintf(path, sizeof path, "%s/map", directory);
    CHECK(atta_map_build(status, &map) == 0);
    CHECK(atta_map_save(status, map, rank == 0 ? path : NULL) == 0);
    /* The file is there on all ranks when they have an answer of rank 0. */
    CHECK(asked(status, ATTA_IS_UNIQUE, "/home/f") == ATTA_YES);
    CHECK(atta_map_load(path, mounts, &age_s, &loaded) == 0 && age_s < 99);
    CHECK(atta_map_ask(loaded, ATTA_IS_UNIQUE, "/home/f", &answer) == 0 && answer == ATTA_YES);
    CHECK(atta_map_ask(loaded, ATTA_IS_UNIQUE, "/scratch/f", &answer) == 0 && answer == ATTA_NO);
    CHECK(atta_map_distribution(loaded, "/scratch/f", &found) == 0);
    CHECK(atta_distribution_descriptor(found, &own) == 0);
    CHECK(own.groups == 2 && own.group == rank % 2 && own.rank_in_group == -1);
    CHECK(atta_free(found) == 0 && atta_free(map) == 0 && atta_free(loaded) == 0 && atta_free(mounts) == 0);
}

/* The place with a mount point. */
static inline struct atta_place place_at(atta_places places, const char *point)
{
    size_t count = 0;
    CHECK(atta_places_count(places, &count) == 0);
    for (size_t number = 0; number < count; number++) {
        struct atta_place place = {.size = sizeof place};
        CHECK(atta_places_get(places, number, &place) == 0 && place.size == sizeof place);
        if (strcmp(place.point, point) == 0)
            return place;
    }
    CHECK(!"a place with this mount point");
    _Exit(1);
}

/* More space than there is, and one directory for all ranks. */
static inline void check_places(atta_status status, uint32_t ranks)
{
    struct atta_requirements wanted = {.size = sizeof wanted, .space_each = (uint64_t)1 << 55};
    atta_map map = 0;
    atta_places places = 0;
    wanted.distribution = ATTA_DISTRIBUTION_UNIQUE;
    wanted.wait_ms = 100000;
    CHECK(atta_map_build(status, &map) == 0);
    CHECK(atta_places_find(status, map, 0, &wanted, &places) == 0);
    struct atta_place root = place_at(places, "/"), none = place_at(places, "/no/such.directory");
    CHECK(strcmp(root.type, "ext4") == 0 && strcmp(root.uri, "ext4://8:1@node0/") == 0);
    CHECK(root.sources == (ranks + 1) / 2 && root.unmet == (ATTA_UNMET_SPACE | ATTA_UNMET_DISTRIBUTION));
    CHECK(root.is_read && root.need == (uint64_t)2 << 55 && root.available > 0 && root.available < root.need);
    CHECK(root.measured == 0 && root.rating > 0 && root.scalability > 0);
    CHECK(root.unmet_rank == -1 && root.unmet_errno == 0);
    CHECK(none.unmet == ATTA_UNMET_UNREADABLE && none.unmet_errno == ENOENT && none.unmet_rank == 0);
    CHECK(none.sources == 1 && !none.is_read);
    CHECK(atta_free(places) == 0);
    /* Nothing is required: what is there suits, and comes first. */
    wanted = (struct atta_requirements){.size = sizeof wanted, .wait_ms = 100000};
    struct atta_place first = {.size = sizeof first};
    CHECK(atta_places_find(status, map, 0, &wanted, &places) == 0);
    CHECK(atta_places_get(places, 0, &first) == 0 && first.unmet == 0 && first.score > 0 && first.score <= 1);
    CHECK(place_at(places, "/").unmet == 0);
    CHECK(atta_free(places) == 0 && atta_free(map) == 0);
}

#endif
