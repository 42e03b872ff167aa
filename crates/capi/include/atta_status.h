/* atta_status.h: global file status. Which file system a path is on, how all hosts name it, and which ranks of a job
 * see the same file.
 *
 * Functions return 0, or -1 with errno; those that return text, NULL with errno. NULL where memory or a text is
 * asked for is an error (EFAULT), never a crash. They do not need atta_init. Only atta_places_find and
 * atta_speeds_measure start threads.
 *
 * Objects are held by numbers, which are never used again. 0 is no object. A number that was given back, or is of
 * another type of object, is EBADF. Each object is given back with atta_free, in any order; other objects do not
 * need it any more. Text stays as long as its object.
 *
 * Paths are absolute and end with NUL: ENOENT for an empty one, EINVAL for a relative one. Symbolic links are taken
 * for directories; realpath(3) resolves them. The path need not exist. ENODEV: the table has no mount above it.
 *
 * Any thread may use any object. A fork must not happen while another thread is in one of these functions. */
#ifndef ATTA_STATUS_H
#define ATTA_STATUS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define ATTA_STATUS_ASSERT(what, text) static_assert(what, text)
extern "C" {
#else
#define ATTA_STATUS_ASSERT(what, text) _Static_assert(what, text)
#endif

/* ---- Mount tables and names. No rank is asked, and no system call is made on a path. ---- */

typedef uint64_t atta_mounts;       /* a mount table */
typedef uint64_t atta_mount;        /* one mount */
typedef uint64_t atta_uri;          /* the global name of a file */
typedef uint64_t atta_status;       /* one rank among others, which can be asked */
typedef uint64_t atta_map;          /* mount points of all ranks, for queries without a message */
typedef uint64_t atta_distribution; /* a path as all ranks see it */
typedef uint64_t atta_speeds;       /* measured speeds of file systems */
typedef uint64_t atta_places;       /* file systems that suit what a job writes */

/* Gives an object back. Text of it is gone then. EBADF. */
int atta_free(uint64_t object);

/* Reads the mount table of this process, and asks the system for what mounts do not say (addresses of servers,
 * attributes of mount points): that may wait for a server. EINVAL: the kernel's text is not understood. */
int atta_mounts_read(atta_mounts *mounts);

/* Takes the text of /proc/self/mountinfo of any host: bytes of lines. boot_id: that of the host
 * (/proc/sys/kernel/random/boot_id); local file systems of different boot ids are different. host: its name, only
 * shown. The system is not asked for anything. EINVAL: no line, an invalid line, a zero byte, an empty boot_id. */
int atta_mounts_from_text(const void *lines, size_t bytes, const char *boot_id, const char *host, atta_mounts *mounts);

/* Reads the table again if the kernel reports a change: one poll(2) if not. *changed, unless it is NULL: whether it
 * was read. After an error the table is as it was. A status keeps the table with which it was joined. EOPNOTSUPP:
 * the table is that of a text. */
int atta_mounts_refresh(atta_mounts mounts, int *changed);

/* The mount that a path leads to. ENODEV. */
int atta_mounts_mount(atta_mounts mounts, const char *path, atta_mount *mount);
const char *atta_mount_point(atta_mount mount);
const char *atta_mount_type(atta_mount mount);   /* such as "nfs4" */
const char *atta_mount_source(atta_mount mount); /* what it says that it was mounted from */

/* The global name of a path. ENODEV. Two spellings: text is for people; canonical is for comparison, and is equal on
 * all hosts for one file as far as its server is known by the same names there. */
int atta_mounts_uri(atta_mounts mounts, const char *path, atta_uri *uri);
const char *atta_uri_text(atta_uri uri);
const char *atta_uri_canonical(atta_uri uri);

/* Answers and relations. Unknown is not a failure: names do not decide, and hosts have to try it out. */
enum { ATTA_NO = 0, ATTA_YES = 1, ATTA_UNKNOWN = 2 };
enum { ATTA_DIFFERENT = 0, ATTA_SAME = 1 }; /* or ATTA_UNKNOWN */

/* Whether two names are one file, or on one file system. */
int atta_uri_relation(atta_uri one, atta_uri other, int *relation);
int atta_uri_file_system_relation(atta_uri one, atta_uri other, int *relation);

/* ---- Ranks of any program. ---- */

/* A value that is reduced; see reduce below. */
struct atta_value;

/* How ranks communicate: the program's own functions. Needed are send and receive, or broadcast and reduce, or all
 * of them. A program without MPI fills this table in over whatever connects its processes. It takes the place of the
 * plug-ins that the FGFS of Ahn et al. 2013 has for MRNet, LaunchMON, PMGR and COBO. atta_status_mpi.h fills it in
 * for MPI.
 *
 * The functions are called by the thread that asks, during that call only. They return 0, or a positive errno, which
 * becomes the error of the query; the library passes it on to the other ranks as far as it can. They must not throw,
 * must not ask the same status (EBUSY), and may block.
 *
 * send and receive: one send on a rank meets one receive on another one, in order, with the same count. So a stream
 * (pipe, socket) will do. A rank may send before the other one receives, and several ranks may send to one: what is
 * sent waits until it is received, or the sender does. No rank sends to itself. Counts are 256, or for long messages
 * 256 and then any number.
 *
 * broadcast: the first rank's bytes come to all. All ranks call it with the same count.
 *
 * reduce: merges the values of all ranks on rank 0, along any tree. On each rank it gets the value of that rank. A
 * rank merges the bytes of some others into it (atta_value_merge), in any order, and sends its bytes to another rank
 * (atta_value_bytes); rank 0 sends none. To gather all bytes on rank 0 and to merge them there will do. */
struct atta_collective {
    size_t size;    /* sizeof(struct atta_collective) */
    void *data;     /* passed to the functions; stays until the status is given back */
    uint32_t rank;  /* this rank, from 0 */
    uint32_t ranks; /* how many there are, 1 or more */
    int (*send)(void *data, uint32_t to, const void *bytes, size_t count);
    int (*receive)(void *data, uint32_t from, void *bytes, size_t count);
    int (*broadcast)(void *data, void *bytes, size_t count);
    int (*reduce)(void *data, struct atta_value *value);
};

/* For reduce, and only until that returns. *bytes: the message with the value as it is now; it stays until the next
 * call for the value. */
int atta_value_bytes(struct atta_value *value, const void **bytes, size_t *count);

/* For reduce, and only until that returns: takes in the message of another rank. An error (EPROTO, or one of that
 * rank) becomes part of the value: go on and pass it upwards. */
int atta_value_merge(struct atta_value *value, const void *bytes, size_t count);

/* Options of queries. Fill it with zeros, set size, and set what is to be different: zero is the default everywhere.
 * Those of rank 0 count on all ranks. */
struct atta_status_options {
    size_t size;               /* sizeof(struct atta_status_options) */
    uint32_t ranks_per_server; /* so many ranks on a server, on average, are poorly distributed (64) */
    uint32_t classes_max;      /* files that are counted exactly; the number of more is estimated (64) */
    uint32_t servers_max;      /* servers that the estimate is made for: 2.9 bits each (420,000) */
    uint32_t assume_servers_differ; /* 1: NFS servers with different names and addresses are different; 0: unknown */
};

/* Joins ranks. collective NULL: this process is alone. options NULL: the defaults. The tables are copied; the mount
 * table may be given back.
 *
 * This, atta_map_build, atta_map_save, atta_places_find and the functions that begin with atta_status_ (except
 * atta_status_failed_rank) are collective: all ranks call them in the same order. The paths of ranks may differ. A
 * wrong path on one rank is an error on all ranks (ENODEV on the others). A wrong number, query or table, or NULL
 * for the result, is refused before anything is sent: then the other ranks wait for this one.
 *
 * Errors of all of them: EPROTO (ranks do not ask the same in the same order, or have different versions of the
 * library), ENOMEM, and what the functions of the table return (EIO for what is not positive). After one of these
 * errors nobody knows which message comes next: later queries of the status return it again, and it can only be
 * given back. EBUSY: another thread asks with this status. EINVAL: the table lacks functions, or has no such rank.
 * E2BIG: a structure of a newer header sets what this library does not know. */
int atta_status_join(atta_mounts mounts, const struct atta_collective *collective,
                     const struct atta_status_options *options, atta_status *status);

/* The rank because of which the last query failed: the path is below no mount there (ENODEV), or it cannot read the
 * file. The same on all ranks. ENODATA: it did not fail, or not because of a rank. Local. */
int atta_status_failed_rank(atta_status status, uint32_t *rank);

/* What can be asked of a path. */
enum {
    ATTA_IS_FULLY_DISTRIBUTED = 1,  /* all ranks have it on their own hosts */
    ATTA_IS_WELL_DISTRIBUTED = 2,   /* fully, or on so many servers that each has fewer than ranks_per_server ranks */
    ATTA_IS_POORLY_DISTRIBUTED = 3, /* not well: a few ranks should read it for all */
    ATTA_IS_UNIQUE = 4,             /* all ranks see one file */
    ATTA_IS_CONSISTENT = 5          /* the files that ranks see are equal */
};

/* Asks all ranks: *answer is ATTA_YES, ATTA_NO or ATTA_UNKNOWN, the same on all. Files are read only for
 * ATTA_IS_CONSISTENT, and only if the file is not unique; if one cannot be read, its errno is the error on all
 * ranks. */
int atta_status_ask(atta_status status, int query, const char *path, int *answer);

/* A path as all ranks see it, for the functions below. Of each group the lowest 64 ranks are listed at most. */
int atta_status_distribution(atta_status status, const char *path, atta_distribution *distribution);

/* The same with all groups and all of their members, however many there are. */
int atta_status_groups(atta_status status, const char *path, atta_distribution *distribution);

/* ---- Asynchronous queries: the ranks build a map of their mount points together, then each answers by itself. ---- */

/* Collective. Mounts that change later are not noticed. With more than 16,384 mount points of all ranks together it
 * is empty. */
int atta_map_build(atta_status status, atta_map *map);

/* Answers from memory. ATTA_IS_CONSISTENT: yes if the file is unique, else unknown. ENODEV: below no mount point of
 * the map. */
int atta_map_ask(atta_map map, int query, const char *path, int *answer);

/* What the map knows of a path. ENODEV. */
int atta_map_distribution(atta_map map, const char *path, atta_distribution *distribution);

/* Collective: saves the map of this status for programs without ranks. Each rank with a file writes it, in one step;
 * NULL: this rank writes none. An error of writing is local: ENOENT (no such directory), EFBIG, and those of
 * write(2). */
int atta_map_save(atta_status status, atta_map map, const char *file);

/* Loads a map without any rank: atta_map_ask answers as for the ranks that saved it. The distributions have the
 * descriptor of the ranks that see what this process sees, with rank_in_group -1; ENODATA if none does. *age_s,
 * unless it is NULL: seconds since it was saved. EBADMSG: it is something else, is damaged, or another version of
 * the library saved it. */
int atta_map_load(const char *file, atta_mounts mounts, uint64_t *age_s, atta_map *map);

/* ---- What is known of a path. Ranks that see the same file are a group; its lowest rank represents it. Local. ---- */

/* The number of groups. Set size before the call. */
struct atta_groups {
    size_t size;          /* sizeof(struct atta_groups) */
    uint32_t low;         /* there are at least so many different files */
    uint32_t high;        /* and at most so many */
    uint32_t is_estimate; /* 1: both are estimated, within some percent */
    uint32_t listed;      /* groups that are listed: all, or 0 if there are more than classes_max */
};

/* A group. Set size before the call. */
struct atta_group {
    size_t size;             /* sizeof(struct atta_group) */
    uint32_t ranks;          /* how many ranks see the file */
    uint32_t listed;         /* how many of them are listed */
    uint32_t representative; /* the lowest one */
    uint32_t is_certain;     /* 1: no other group may see the same file */
};

/* The place of this rank. Set size before the call. */
struct atta_descriptor {
    size_t size;             /* sizeof(struct atta_descriptor) */
    uint32_t groups;         /* how many groups there are */
    uint32_t group;          /* that of this rank, from 0; groups are in the order of their lowest ranks */
    uint32_t ranks;          /* how many ranks it has */
    uint32_t representative; /* the lowest one */
    int64_t rank_in_group;   /* how many of them are lower than this rank; -1: this rank is not listed */
    uint32_t is_certain;     /* 1: no other group may see the same file */
    uint32_t unused;
};

/* ---- Which file system suits what a job writes. ---- */

/* Values of struct atta_requirements; 0: nothing is required. */
enum { ATTA_SPEED_LOW = 1, ATTA_SPEED_HIGH = 2 };
enum {
    ATTA_DISTRIBUTION_UNIQUE = 1, /* all ranks see one directory */
    ATTA_DISTRIBUTION_LOW = 2,    /* it is poorly distributed */
    ATTA_DISTRIBUTION_HIGH = 3,   /* it is well distributed */
    ATTA_DISTRIBUTION_FULL = 4    /* each host has its own */
};
enum { ATTA_SCALABILITY_SINGLE = 1, ATTA_SCALABILITY_MULTI = 2 }; /* multi: a parallel file system */

/* What a job wants. Fill it with zeros, set size, and set what is required. */
struct atta_requirements {
    size_t size;            /* sizeof(struct atta_requirements) */
    uint64_t space_each;    /* bytes that this rank writes */
    uint64_t space_total;   /* bytes that all ranks write together, each the same share; that of rank 0 counts */
    uint64_t space_to_free; /* bytes that this rank removes from the file system before */
    uint32_t speed;         /* high: that of a local disk or more (200 MB/s). From here on, values of rank 0 count */
    uint32_t distribution;
    uint32_t scalability;
    uint32_t is_writable;   /* 1: files can be made in the mounted directory; tried with a file without a name */
    uint32_t wait_ms;       /* how long file systems may take to answer (5 s); own. A thread that waits longer is left */
    uint32_t unused;        /* 0 */
};

/* Why a place does not suit: flags. */
enum {
    ATTA_UNMET_SPACE = 1,
    ATTA_UNMET_SPEED = 2,
    ATTA_UNMET_DISTRIBUTION = 4,
    ATTA_UNMET_DISTRIBUTION_UNKNOWN = 8,
    ATTA_UNMET_SCALABILITY = 16,
    ATTA_UNMET_READ_ONLY = 32,
    ATTA_UNMET_NOT_WRITABLE = 64,
    ATTA_UNMET_UNREADABLE = 128, /* its space cannot be read; it may be no directory */
    ATTA_UNMET_NO_ANSWER = 256   /* within wait_ms */
};

/* A mount point that all ranks have. Set size before the call. Texts stay as long as the object; they are those of
 * rank 0. */
struct atta_place {
    size_t size;            /* sizeof(struct atta_place) */
    const char *point;      /* the mount point */
    const char *type;
    const char *uri;        /* of the mount point, for people */
    double score;           /* 0 to 1; higher is better. Only comparable within one search */
    uint64_t need;          /* bytes that the ranks need which share the source with the least space beside its need */
    uint64_t available;     /* bytes that are available there to this user */
    uint64_t measured;      /* bytes a second that one process wrote, the lowest of all ranks; 0: no rank knows one */
    uint32_t tightest_rank; /* the lowest rank that shares that source */
    uint32_t sources;       /* how many file systems the ranks see there; those that may be one count as one */
    uint32_t rating;        /* speed in the table of types, relative to a small NFS server (1) */
    uint32_t scalability;   /* how many processes get that speed at once */
    uint32_t unmet;         /* flags; 0: it is suitable */
    int32_t unmet_errno;    /* for the last four flags: the error, of the first of them (EROFS, ETIMEDOUT); else 0 */
    int64_t unmet_rank;     /* and the lowest rank that has it; else -1 */
    uint32_t is_read;       /* 1: need, available and tightest_rank are known */
    uint32_t is_quota_read; /* 1: available respects the quota of the user */
};

ATTA_STATUS_ASSERT(sizeof(size_t) == 8, "64-bit Linux");
ATTA_STATUS_ASSERT(sizeof(struct atta_requirements) == 56, "struct atta_requirements as the library has it");
ATTA_STATUS_ASSERT(sizeof(struct atta_place) == 104, "struct atta_place as the library has it");
ATTA_STATUS_ASSERT(sizeof(struct atta_collective) == 56, "struct atta_collective as the library has it");
ATTA_STATUS_ASSERT(sizeof(struct atta_status_options) == 24, "struct atta_status_options as the library has it");
ATTA_STATUS_ASSERT(sizeof(struct atta_groups) == 24, "struct atta_groups as the library has it");
ATTA_STATUS_ASSERT(sizeof(struct atta_group) == 24, "struct atta_group as the library has it");
ATTA_STATUS_ASSERT(sizeof(struct atta_descriptor) == 40, "struct atta_descriptor as the library has it");

/* The answer to a query. ATTA_IS_CONSISTENT: yes if the file is unique, else unknown. */
int atta_distribution_ask(atta_distribution distribution, int query, int *answer);

int atta_distribution_groups(atta_distribution distribution, struct atta_groups *groups);

/* A group by its number, from 0. EINVAL: not so many are listed. */
int atta_distribution_group(atta_distribution distribution, uint32_t number, struct atta_group *group);

/* The lowest ranks of a group, ascending: as many as are listed, and as there is room for. *count: how many were
 * stored. EINVAL: not so many groups are listed. */
int atta_distribution_members(atta_distribution distribution, uint32_t number, uint32_t *ranks, size_t room,
                              size_t *count);

/* ENODATA: no groups are listed. */
int atta_distribution_descriptor(atta_distribution distribution, struct atta_descriptor *descriptor);

/* Measured speeds of a file. One that does not exist has none. EBADMSG: it is something else, is damaged, or another
 * version wrote it. */
int atta_speeds_load(const char *file, atta_speeds *speeds);

/* Writes a file in one step. ENOENT: its directory does not exist. */
int atta_speeds_save(atta_speeds speeds, const char *file);

/* Measures the speed of a directory now, with up to 32 MiB and two seconds, and keeps it for the file system of the
 * directory. timeout_ms (negative: for ever): ETIMEDOUT, and the thread that measures is left behind. ENODEV: below
 * no mount. ENOSPC: less than 16 MiB are available. */
int atta_speeds_measure(atta_speeds speeds, atta_mounts mounts, const char *directory, int timeout_ms);

/* Collective: all mount points that all ranks have and on which files can be kept, suitable ones first, the best
 * first. map: that of this status; EPROTO if ranks have others. speeds: what this rank knows, or 0: nothing, so that
 * the table of types counts. */
int atta_places_find(atta_status status, atta_map map, atta_speeds speeds, const struct atta_requirements *requirements,
                     atta_places *places);
int atta_places_count(atta_places places, size_t *count);

/* A place by its number, from 0. EINVAL: there are not so many. */
int atta_places_get(atta_places places, size_t number, struct atta_place *place);

#ifdef __cplusplus
}
#endif

#endif
